//! The system calls of the driver, each wrapped once.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, c_void, clockid_t, epoll_event};

pub const NS_PER_MS: u64 = 1_000_000;

fn check(answer: c_int) -> io::Result<c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

fn clock_ns(clock: clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call.
    check(unsafe { libc::clock_gettime(clock, &mut time) })?;
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CLOCK_MONOTONIC in ns.
#[inline]
pub fn now() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC always exists")
}

/// What a CPU clock of another process counts; the kernel's numbers of `clock_getcpuclockid(3)`.
#[derive(Clone, Copy)]
enum CpuClock {
    /// User and system time as clock ticks met them.
    Sampled = 0,
    SampledUser = 1,
    /// What its threads ran, to the ns.
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

/// What a process has done since it began. Context switches are those of the threads that live.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ProcessUsage {
    /// As clock ticks met it: their ratio is what is of use.
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

    /// A thread that ended takes its context switches along: they are 0 rather than below.
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
    // A thread may end between the listing and the look.
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
        // The kernel drops CPUs it cannot give without a word.
        let mut given: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut given))?;
        match libc::CPU_EQUAL(&set, &given) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }
}

/// Let timers of the calling thread end to the ns; usually the kernel may be 50 us late to save wake-ups.
pub fn wake_punctually() {
    // SAFETY: takes a number only. When it fails, wake-ups are later, which the driver measures.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// How long the calling thread has been ready and waited for a CPU since it began; none when the kernel does not tell.
pub fn run_delay_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

/// Send what the socket takes now; `WouldBlock` when it takes nothing.
#[inline]
pub fn send(socket: BorrowedFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are of one slice.
    let sent = unsafe {
        libc::send(socket.as_raw_fd(), bytes.as_ptr().cast::<c_void>(), bytes.len(), libc::MSG_NOSIGNAL)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receive what is there; 0 when the peer has closed.
#[inline]
pub fn recv(socket: BorrowedFd, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are of one slice.
    let received =
        unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast::<c_void>(), bytes.len(), 0) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

pub fn set_nonblocking(socket: BorrowedFd) -> io::Result<()> {
    // SAFETY: plain calls on an open descriptor.
    unsafe {
        let flags = check(libc::fcntl(socket.as_raw_fd(), libc::F_GETFL))?;
        check(libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK))?;
    }
    Ok(())
}

/// Give the calling thread a table of descriptors of its own, in which system calls need not count their users. The
/// descriptors that it opens from now on are its own, too. Where that is not allowed, the table stays shared.
pub fn own_descriptors() {
    // SAFETY: the arguments are a range of no descriptors, and a flag.
    unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, libc::CLOSE_RANGE_UNSHARE) };
}

/// Let this process open as many files as its hard limit allows: how many that are.
pub fn raise_file_limit() -> u64 {
    // SAFETY: `limit` outlives both calls. When they fail, a later socket tells so.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return u64::MAX;
        }
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        limit.rlim_max
    }
}

/// The bytes of `socket` that were sent and that its peer has not yet taken.
pub fn held_bytes(socket: BorrowedFd) -> io::Result<usize> {
    let mut held: libc::c_int = 0;
    // SAFETY: the kernel writes one int, which outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut held) })?;
    Ok(held as usize)
}

/// What a thread waits for besides replies, which are always waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Replies,
    RepliesAndRoom,
}

impl Interest {
    fn mask(self) -> u32 {
        match self {
            Interest::Replies => libc::EPOLLIN as u32,
            Interest::RepliesAndRoom => (libc::EPOLLIN | libc::EPOLLOUT) as u32,
        }
    }
}

/// Wait for at most `limit` until a socket is ready; whether it is.
pub fn await_ready(socket: BorrowedFd, interest: Interest, limit: Duration) -> io::Result<bool> {
    // The bits of poll and of epoll are the same.
    let mut waited =
        libc::pollfd { fd: socket.as_raw_fd(), events: interest.mask() as libc::c_short, revents: 0 };
    let limit_ms = limit.as_nanos().div_ceil(u128::from(NS_PER_MS)) as c_int;
    // SAFETY: `waited` outlives the call, and is one.
    match check(unsafe { libc::poll(&mut waited, 1, limit_ms) }) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// One ready socket: its token, whether it takes more bytes, and whether it has broken or the peer sends no more.
#[derive(Clone, Copy)]
pub struct Ready {
    pub token: usize,
    pub room: bool,
    pub ended: bool,
}

/// An epoll set. A socket is registered once; the steady state never changes it.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<epoll_event>,
    /// Flags that all sockets are registered with.
    trigger: u32,
}

impl Epoll {
    /// A level-triggered set: a socket is ready as long as there is something.
    pub fn new(capacity: usize) -> io::Result<Epoll> {
        // SAFETY: the descriptor is new and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Epoll { fd, events: vec![epoll_event { events: 0, u64: 0 }; capacity.max(1)], trigger: 0 })
    }

    /// A set that tells once what has arrived. It must then be received until there is no more, and when a socket has
    /// ended until that shows. Saves the kernel a second look at every socket in the wait after.
    pub fn edge_triggered(capacity: usize) -> io::Result<Epoll> {
        Ok(Epoll { trigger: (libc::EPOLLET | libc::EPOLLRDHUP) as u32, ..Epoll::new(capacity)? })
    }

    pub fn add(&self, socket: BorrowedFd, token: usize) -> io::Result<()> {
        self.add_for(socket, token, Interest::Replies)
    }

    pub fn add_for(&self, socket: BorrowedFd, token: usize, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, interest)
    }

    pub fn change(&self, socket: BorrowedFd, token: usize, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, token, interest)
    }

    fn control(
        &self,
        operation: c_int,
        socket: BorrowedFd,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        let mut event = epoll_event { events: interest.mask() | self.trigger, u64: token as u64 };
        // SAFETY: `event` outlives the call.
        let answer =
            unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, socket.as_raw_fd(), &mut event) };
        check(answer).map(drop)
    }

    /// Wait for at most `ns`, to the ns where the kernel can (Linux 5.11); the number of ready sockets as of `wait`.
    pub fn wait_ns(&mut self, ns: u64) -> io::Result<usize> {
        let time = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the vector and `time` outlive the call; without a signal mask its size is not looked at.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len(),
                &raw const time,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        match check(answer as c_int) {
            Ok(ready) => Ok(ready as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                self.wait(ns.div_ceil(NS_PER_MS) as c_int)
            }
            Err(error) => Err(error),
        }
    }

    /// Wait for at most `timeout_ms`; the number of ready sockets, 0 after a timeout or a signal.
    #[inline]
    pub fn wait(&mut self, timeout_ms: c_int) -> io::Result<usize> {
        // SAFETY: pointer and length are of one vector.
        let answer = unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as c_int,
                timeout_ms,
            )
        };
        match check(answer) {
            Ok(ready) => Ok(ready as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Ready socket number `index` of the last wait.
    #[inline]
    pub fn ready(&self, index: usize) -> Ready {
        const ENDED: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        let event = self.events[index];
        Ready {
            token: event.u64 as usize,
            room: event.events & libc::EPOLLOUT as u32 != 0,
            ended: event.events & ENDED != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_a_process_grows_with_what_it_does() {
        let before = ProcessUsage::of(std::process::id()).unwrap();
        let began = process_cpu_ns(std::process::id()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
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

/// The threads that process `pid` has now.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let names = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    names
        .map(|entry| entry.map(|entry| entry.file_name()))
        .map(|name| Ok(name?.to_string_lossy().parse().unwrap_or(0)))
        .collect()
}

/// What an event was counted to, and for how long it was to be and was.
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

/// `struct perf_event_attr` in its first form (PERF_ATTR_SIZE_VER0), which every kernel takes.
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
    // SAFETY: `attributes` outlives the call, and tells its own size; any CPU is -1.
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
    // SAFETY: the descriptor is new and owned by nobody else.
    check(answer as c_int).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What a counter has come to, that of inherited threads included.
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
