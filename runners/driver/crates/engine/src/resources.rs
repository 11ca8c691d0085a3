//! What a run needs of this process: open files, and CPUs for its threads.

use crate::job::Job;
use machine::{process, this_thread};
use text::failure::Failure;

/// Files that are no connections: those of the standard streams, of epoll, of the clock of the server and so on.
const OTHER_FILES: usize = 32;

/// A failure when this process may not open as many files as `connections` need, of which each of `threads` with a
/// table of its own has its share.
pub fn require_files(connections: usize, threads: usize) -> Result<(), Failure> {
    let (each, limit) = (connections.div_ceil(threads), process::raise_file_limit());
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
