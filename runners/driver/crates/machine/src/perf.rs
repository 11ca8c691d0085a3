//! The kernel's event counters: one system call each.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_void};

use crate::clock::check;

/// The count of an event, for how long it was enabled, and for how long it was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerfReading {
    pub count: u64,
    pub enabled_ns: u64,
    pub running_ns: u64,
}

impl PerfReading {
    pub fn since(self, earlier: PerfReading) -> PerfReading {
        PerfReading {
            count: self.count - earlier.count,
            enabled_ns: self.enabled_ns - earlier.enabled_ns,
            running_ns: self.running_ns - earlier.running_ns,
        }
    }
}

impl std::iter::Sum for PerfReading {
    fn sum<I: Iterator<Item = PerfReading>>(readings: I) -> PerfReading {
        readings.fold(PerfReading::default(), |sum, one| PerfReading {
            count: sum.count + one.count,
            enabled_ns: sum.enabled_ns + one.enabled_ns,
            running_ns: sum.running_ns + one.running_ns,
        })
    }
}

/// `struct perf_event_attr` in its first form (PERF_ATTR_SIZE_VER0), which every kernel accepts.
#[repr(C)]
struct PerfAttributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

/// Count an event of a thread and of all that it starts from now on, in the group of `leader`.
pub fn open_counter(
    thread: u32,
    kind: u32,
    config: u64,
    kernel: bool,
    leader: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    const INHERIT: u64 = 1 << 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const TOTAL_TIMES: u64 = 1 | 1 << 1;
    let attributes = PerfAttributes {
        kind,
        size: size_of::<PerfAttributes>() as u32,
        config,
        period: 0,
        sample_type: 0,
        read_format: TOTAL_TIMES,
        flags: INHERIT | if kernel { 0 } else { EXCLUDE_KERNEL },
        wakeup: 0,
        breakpoint: 0,
        config1: 0,
    };
    const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
    let group = leader.map_or(-1, |leader| leader.as_raw_fd());
    // SAFETY: `attributes` outlives the call, and holds its own size; -1 stands for any CPU.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread as c_int,
            -1,
            group,
            CLOSE_ON_EXEC,
        )
    };
    // SAFETY: the descriptor is new and has no other owner.
    check(answer as c_int).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The value of a counter, inherited threads included.
pub fn read_counter(counter: &OwnedFd) -> io::Result<PerfReading> {
    let mut numbers = [0u64; 3];
    // SAFETY: pointer and length are of one array.
    let answer = unsafe {
        libc::read(counter.as_raw_fd(), numbers.as_mut_ptr().cast::<c_void>(), size_of_val(&numbers))
    };
    match answer {
        24 => Ok(PerfReading { count: numbers[0], enabled_ns: numbers[1], running_ns: numbers[2] }),
        negative if negative < 0 => Err(io::Error::last_os_error()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
