//! What the kernel reports about a process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::c_int;

use crate::clock::{check, clock_ns};

/// What a CPU clock of another process counts; the kernel's numbers of `clock_getcpuclockid(3)`.
#[derive(Clone, Copy)]
enum CpuClock {
    /// User and system time, sampled by clock ticks.
    Sampled = 0,
    SampledUser = 1,
    /// The time for which its threads ran, to the ns.
    Exact = 2,
}

fn process_clock_ns(pid: u32, clock: CpuClock) -> io::Result<u64> {
    clock_ns((!(pid as c_int) << 3) | clock as c_int)
}

/// CPU time in ns that all threads of process `pid` have used, dead threads included.
///
/// Errors when there is no such process.
pub fn process_cpu_ns(pid: u32) -> io::Result<u64> {
    process_clock_ns(pid, CpuClock::Exact)
}

/// What a process has done since it began. Context switches are those of its live threads.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ProcessUsage {
    /// Sampled by clock ticks: only their ratio is of use.
    pub sampled_ns: u64,
    pub sampled_user_ns: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

impl ProcessUsage {
    /// Errors when there is no such process.
    pub fn of(pid: u32) -> io::Result<ProcessUsage> {
        let switches = |name| tasks_sum(pid, name);
        let [minor_faults, major_faults] = faults(pid)?;
        Ok(ProcessUsage {
            sampled_ns: process_clock_ns(pid, CpuClock::Sampled)?,
            sampled_user_ns: process_clock_ns(pid, CpuClock::SampledUser)?,
            voluntary_switches: switches("voluntary_ctxt_switches:")?,
            involuntary_switches: switches("nonvoluntary_ctxt_switches:")?,
            minor_faults,
            major_faults,
        })
    }

    /// The context switches of a thread vanish when it ends, so differences are cut off at 0.
    pub fn since(self, earlier: ProcessUsage) -> ProcessUsage {
        ProcessUsage {
            sampled_ns: self.sampled_ns - earlier.sampled_ns,
            sampled_user_ns: self.sampled_user_ns - earlier.sampled_user_ns,
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            minor_faults: self.minor_faults - earlier.minor_faults,
            major_faults: self.major_faults - earlier.major_faults,
        }
    }
}

/// The sum of a line of `/proc/PID/task/*/status` over all threads.
fn tasks_sum(pid: u32, name: &str) -> io::Result<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    // A thread may end after it was listed.
    let texts = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    Ok(texts.filter_map(|text| status_number(&text, name)).sum())
}

/// The number after `name` in the text of a status file.
fn status_number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// Minor and major page faults of a process.
fn faults(pid: u32) -> io::Result<[u64; 2]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program stands in parentheses and may hold any character; state and seven numbers follow it.
    let mut numbers = text.rsplit(')').next().unwrap_or("").split_whitespace().skip(7).map(str::parse);
    match (numbers.next(), numbers.nth(1)) {
        (Some(Ok(minor)), Some(Ok(major))) => Ok([minor, major]),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Bytes of memory that process `pid` holds (its resident set). Errors when there is no such process.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kibibytes = status_number(&status, "VmRSS:");
    kibibytes.map(|number| number * 1024).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Raise the soft limit of open files to the hard limit, and both to `needed` where this process may; the limit.
pub fn raise_file_limit(needed: u64) -> u64 {
    // SAFETY: `limit` outlives both calls. When they fail, opening a socket fails later.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return u64::MAX;
        }
        limit.rlim_cur = limit.rlim_max;
        let higher = libc::rlimit { rlim_cur: needed, rlim_max: needed };
        if needed > limit.rlim_max && libc::setrlimit(libc::RLIMIT_NOFILE, &higher) == 0 {
            return needed;
        }
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        limit.rlim_max
    }
}

/// Let the process that `command` starts end with the thread that starts it.
pub fn end_with_parent(command: &mut Command) {
    let die = || {
        // SAFETY: a plain system call, which allocates nothing.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(|_| ())
    };
    // SAFETY: `die` makes one system call and touches no memory of the parent.
    unsafe { command.pre_exec(die) };
}

/// Ask process `pid`, a child that was not yet waited for, to end.
pub fn terminate(pid: u32) {
    // SAFETY: a plain system call; the id of a child that was not waited for is not given away.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGTERM) };
}

/// The threads that process `pid` has now.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let names = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    names
        .map(|entry| entry.map(|entry| entry.file_name()))
        .map(|name| Ok(name?.to_string_lossy().parse().unwrap_or(0)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_usage_of_a_process_grows_with_what_it_does() {
        let before = ProcessUsage::of(std::process::id()).unwrap();
        let began = process_cpu_ns(std::process::id()).unwrap();
        // Threads of other tests end meanwhile, and their few context switches vanish.
        (0..50).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        let memory = vec![1u8; 8 << 20];
        while process_cpu_ns(std::process::id()).unwrap() < began + 50_000_000 {
            std::hint::black_box(&memory);
        }
        let used = ProcessUsage::of(std::process::id()).unwrap().since(before);
        assert!(used.voluntary_switches >= 1 && used.minor_faults >= 2, "{used:?}");
        assert!(used.sampled_user_ns <= used.sampled_ns && used.sampled_ns > 0, "{used:?}");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(ProcessUsage::of(1 << 30).is_err());
    }
}
