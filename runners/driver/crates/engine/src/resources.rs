//! What a run needs of this process: open files, and CPUs for its threads.

use crate::job::Job;
use machine::{process, signals, socket, this_thread};
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

/// A failure when the program was asked to end.
pub fn check_signals() -> Result<(), Failure> {
    match signals::received() {
        None => Ok(()),
        Some(signal) => Err(Failure::signal(signal, signals::name(signal))),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use network::dialect::Dialect;
    use network::sources::Sources;

    #[test]
    fn each_local_address_has_its_ports_and_a_unix_socket_needs_none() {
        let each = socket::local_ports().unwrap();
        let failure = |address: Address, sources: &str, connections: usize| {
            let sources = Sources::from_first(&Sources::parse(sources).unwrap());
            let (greeting, timeout) = (Vec::new(), Duration::ZERO);
            let dialect = Dialect::Resp;
            let target = Target { address, dialect, tls: None, greeting, timeout, sources, mptcp: false };
            require_ports(&target, connections).err().map(|failure| failure.to_string())
        };
        let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: 1 };
        assert_eq!(failure(tcp.clone(), "127.0.0.1", each), None);
        assert_eq!(failure(tcp.clone(), "127.0.0.1-127.0.0.3", 3 * each), None);
        let message = failure(tcp, "127.0.0.1-127.0.0.2", 2 * each + 1).unwrap();
        assert!(message.contains(&format!("local ports than the {each} of each of 2")), "{message}");
        assert!(message.contains("give 3 addresses, as in --source"), "{message}");
        assert_eq!(failure(Address::Unix { path: "/s".to_owned() }, "127.0.0.1", 2 * each), None);
    }
}
