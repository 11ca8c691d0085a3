//! What a run needs of this process: open files, and CPUs for its threads.

use crate::job::Job;
use machine::{process, socket, this_thread};
use network::target::{Address, Target};
use text::failure::Failure;

/// Files that are no connections: those of the standard streams, of epoll, of the clock of the server and so on.
const OTHER_FILES: usize = 32;

/// A failure when this process may not open as many files as `connections` need, of which each of `threads` with a
/// table of its own has its share.
pub fn require_files(connections: usize, threads: usize) -> Result<(), Failure> {
    let (each, limit) = (
        connections.div_ceil(threads),
        process::raise_file_limit((connections.div_ceil(threads) + OTHER_FILES) as u64),
    );
    match (each + OTHER_FILES) as u64 <= limit {
        true => Ok(()),
        false => Err(Failure::machine(
            format!("{each} connections of a thread need more files than the {limit} that it may open"),
            format!(
                "raise the hard limit (ulimit -Hn) to at least {}, or lower the number of clients",
                each + OTHER_FILES
            ),
        )),
    }
}

/// A failure when the local addresses of connections to `target` have fewer ports than `connections`.
pub fn require_ports(target: &Target, connections: usize) -> Result<(), Failure> {
    let Some(each) = socket::local_ports().filter(|_| matches!(target.address, Address::Tcp { .. })) else {
        return Ok(());
    };
    let addresses = target.sources.count();
    match connections <= each * addresses {
        true => Ok(()),
        false => Err(Failure::machine(
            format!(
                "{connections} connections need more local ports than the {each} of each of {addresses} address(es)"
            ),
            format!(
                "give {} addresses, as in --source 127.0.0.1-127.0.0.8, or widen net.ipv4.ip_local_port_range",
                connections.div_ceil(each.max(1))
            ),
        )),
    }
}

/// Pin the calling thread, number `thread` of the job, as the job says.
pub fn pin(job: &Job, thread: usize) -> Result<(), Failure> {
    match job.cpus.get(thread) {
        None => Ok(()),
        Some(&cpu) => pin_to(&[cpu]),
    }
}

/// Pin the calling thread to `cpus`.
pub fn pin_to(cpus: &[usize]) -> Result<(), Failure> {
    this_thread::pin(cpus).map_err(|error| {
        Failure::run(
            format!("cannot pin a thread to CPU {cpus:?} ({error})"),
            "give --cpus CPUs that exist and that this process may use (taskset -p)",
        )
    })
}
