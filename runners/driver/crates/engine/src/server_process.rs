//! The clocks and counters of the server's process.

use std::io;

use machine::process::{self, ProcessUsage};
use text::failure::Failure;

/// The CPU time of the server process in ns.
pub fn read_server_clock(pid: u32) -> Result<u64, Failure> {
    process::process_cpu_ns(pid).map_err(|error| unreadable(pid, "CPU clock", &error))
}

pub fn read_server_usage(pid: u32) -> Result<ProcessUsage, Failure> {
    ProcessUsage::of(pid).map_err(|error| unreadable(pid, "counters", &error))
}

/// The bytes of memory that the server process holds.
pub fn read_server_memory(pid: u32) -> Result<u64, Failure> {
    process::resident_bytes(pid).map_err(|error| unreadable(pid, "memory", &error))
}

fn unreadable(pid: u32, what: &str, error: &io::Error) -> Failure {
    Failure::run(
        format!("cannot read the {what} of process {pid} ({error})"),
        "give the id of the running server, in this pid namespace (--server-pid; of a duel --base-pid and --head-pid)",
    )
}
