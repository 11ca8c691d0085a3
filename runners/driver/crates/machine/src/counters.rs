//! The kernel's counters (perf_event_open) on a process: all its threads, and those that they start from then on.

use std::io;
use std::os::fd::OwnedFd;

use crate::perf::{self, PerfReading};
use crate::process;

/// What can be counted: its name, and the kernel's type and number of it.
type Event = (&'static str, u32, u64);

const EVENTS: [Event; 5] = [
    ("instructions", 0, 1),
    ("cycles", 0, 0),
    ("task-clock", 1, 1),
    ("page-faults", 1, 2),
    ("context-switches", 1, 3),
];

/// Events that the kernel counts of a process. Counting goes on until this is dropped.
#[derive(Debug)]
pub struct Counters {
    pub scope: &'static str,
    /// By event: its name, and one descriptor per thread.
    counting: Vec<(&'static str, Vec<OwnedFd>)>,
}

/// The count of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub name: &'static str,
    pub count: u64,
}

/// The events of a list such as `instructions,cycles`; none when it names an unknown event.
pub fn named(list: &str) -> Option<Vec<&'static str>> {
    list.split(',').map(|name| EVENTS.iter().find(|event| event.0 == name).map(|event| event.0)).collect()
}

pub fn names() -> String {
    EVENTS.map(|event| event.0).join(", ")
}

/// What this machine can count of a process of its user: the scope, or why it cannot count.
pub fn offered() -> String {
    Counters::of(std::process::id(), &["instructions", "cycles"])
        .map_or_else(|cause| cause, |counters| counters.scope.to_owned())
}

impl Counters {
    /// Start counting, in the kernel too where that is allowed. The error is a sentence with cause and remedy.
    pub fn of(pid: u32, names: &[&str]) -> Result<Counters, String> {
        let events: Vec<Event> = EVENTS.into_iter().filter(|event| names.contains(&event.0)).collect();
        match Counters::attached(pid, &events, true) {
            Err((_, error)) if is_forbidden(&error) => Counters::attached(pid, &events, false),
            answer => answer,
        }
        .map_err(|(name, error)| cause(name, &error))
    }

    fn attached(pid: u32, events: &[Event], kernel: bool) -> Result<Counters, (&'static str, io::Error)> {
        let mut counting: Vec<(&'static str, Vec<OwnedFd>)> =
            events.iter().map(|event| (event.0, Vec::new())).collect();
        for thread in process::threads(pid).map_err(|error| ("threads", error))? {
            // The first event leads a group: the kernel counts all events of a group at the same times, or none.
            let mut opened: Vec<OwnedFd> = Vec::new();
            for &(name, kind, number) in events {
                match perf::open_counter(thread, kind, number, kernel, opened.first()) {
                    Ok(counter) => opened.push(counter),
                    // The thread has ended since it was listed.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                    Err(error) => return Err((name, error)),
                }
            }
            if opened.len() == events.len() {
                counting.iter_mut().zip(opened).for_each(|((_, counters), counter)| counters.push(counter));
            }
        }
        Ok(Counters { scope: if kernel { "user and kernel" } else { "user only" }, counting })
    }

    /// What was counted so far, of each event.
    pub fn read(&self) -> io::Result<Vec<PerfReading>> {
        self.counting
            .iter()
            .map(|(_, counters)| counters.iter().map(perf::read_counter).sum::<io::Result<PerfReading>>())
            .collect()
    }

    /// What was counted between two readings. None when the events shared the hardware counters with other events for
    /// part of the time: scaled counts would be estimates.
    pub fn between(&self, opened: &[PerfReading], closed: &[PerfReading]) -> Option<Vec<Counted>> {
        let names = self.counting.iter().map(|(name, _)| *name);
        names
            .zip(opened.iter().zip(closed))
            .map(|(name, (opened, closed))| {
                let gained = closed.since(*opened);
                (gained.enabled_ns == gained.running_ns).then_some(Counted { name, count: gained.count })
            })
            .collect()
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

fn cause(name: &str, error: &io::Error) -> String {
    let words = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP) => {
            format!("the processor, or the hypervisor under it, offers no counter of {name}")
        }
        Some(libc::EACCES | libc::EPERM) => {
            "the kernel does not allow it: set kernel.perf_event_paranoid to 2 or less, or grant CAP_PERFMON"
                .into()
        }
        Some(libc::ENOSYS) => "the kernel was built without perf_event_open".into(),
        _ => format!("{name}: {error}"),
    };
    format!("not available here: {words}")
}
