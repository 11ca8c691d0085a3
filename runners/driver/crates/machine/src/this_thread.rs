//! The calling thread: what it has used, and where and how it runs.

use std::io;

use crate::clock::check;

/// What the calling thread has used since it began.
#[derive(Clone, Copy, Default)]
pub struct Usage {
    pub user_ns: u64,
    pub system_ns: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

impl Usage {
    pub fn of_this_thread() -> Usage {
        // SAFETY: an all-zero rusage is valid, and `usage` outlives the call, which cannot fail for RUSAGE_THREAD.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage
        };
        Usage {
            user_ns: timeval_ns(usage.ru_utime),
            system_ns: timeval_ns(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            user_ns: self.user_ns - earlier.user_ns,
            system_ns: self.system_ns - earlier.system_ns,
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
        }
    }

    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }

    pub fn cpu_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }
}

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}

/// Pin the calling thread to `cpus`. Errors when one of them does not exist or is not allowed.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set; `set` outlives the call; the bound is checked before CPU_SET.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            if cpu >= libc::CPU_SETSIZE as usize {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            libc::CPU_SET(cpu, &mut set);
        }
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set))?;
        // The kernel silently drops CPUs that it cannot give.
        let mut given: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut given))?;
        match libc::CPU_EQUAL(&set, &given) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }
}

/// Make the timers of the calling thread exact; by default the kernel may fire them 50 us late to save wake-ups.
pub fn wake_punctually() {
    // SAFETY: takes a number only. When it fails, wake-ups are later, which the driver measures.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// How long the calling thread has been ready and waited for a CPU since it began; none when the kernel does not report it.
pub fn run_delay_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

/// Give the calling thread its own table of file descriptors, so that system calls need not lock a shared one. Other
/// threads cannot use descriptors that it opens from now on. Where that is not allowed, the table stays shared.
pub fn own_descriptors() {
    // SAFETY: the arguments are a range of no descriptors, and a flag.
    unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, libc::CLOSE_RANGE_UNSHARE) };
}
