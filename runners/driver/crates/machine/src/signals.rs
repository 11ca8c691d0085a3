//! Signals that ask the program to end: they are noted, so that a load can stop and tell what it has counted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use libc::c_int;

use crate::clock;

static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// When each signal was noted first, in ns of the monotonic clock.
static NOTED_AT: [AtomicU64; NOTED.len()] = [const { AtomicU64::new(0) }; NOTED.len()];
/// What is done before a second signal ends the process.
static LAST_ACT: OnceLock<fn()> = OnceLock::new();
/// Signals of a kind that come this soon after each other are one: `timeout` sends its own to the child and to its group.
const AT_ONCE_NS: u64 = 100_000_000;

/// The signals that are noted, with their names.
pub const NOTED: [(c_int, &str); 2] = [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM")];

extern "C" fn heed(signal: c_int) {
    if note(signal).is_some_and(|since_ns| since_ns > AT_ONCE_NS) {
        end(signal);
    }
}

/// Note the signal; the ns since it was noted first, if it was before.
fn note(signal: c_int) -> Option<u64> {
    RECEIVED.store(signal, Ordering::Relaxed);
    let place = NOTED.iter().position(|(number, _)| *number == signal)?;
    let now = clock::now();
    let first = NOTED_AT[place].compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).err()?;
    Some(now.saturating_sub(first))
}

fn end(signal: c_int) {
    if let Some(act) = LAST_ACT.get() {
        act();
    }
    // SAFETY: both calls may be made in a handler; the signal then ends the process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Note the signals from now on; the second of a kind ends the process, as it does without this. What the parent process
/// ignores stays ignored.
pub fn note_all() {
    for (signal, _) in NOTED {
        // SAFETY: the structures are plain data that outlive the calls, and `heed` does only what a handler may.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut before);
            if before.sa_sigaction != libc::SIG_IGN {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = heed as *const () as libc::sighandler_t;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}

/// Let `act`, which may do only what a signal handler may, come before the end of the process by a second signal.
pub fn before_the_end(act: fn()) {
    // The first one stays: it is for the life of the process.
    let _ = LAST_ACT.set(act);
}

/// Ask the program to end as an interrupt does: the second time at once.
pub fn interrupt() {
    if note(libc::SIGINT).is_some() {
        end(libc::SIGINT);
    }
}

/// The signal that was received, if any.
#[inline]
pub fn received() -> Option<c_int> {
    Some(RECEIVED.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// The name of a noted signal.
pub fn name(signal: c_int) -> &'static str {
    NOTED.iter().find(|(number, _)| *number == signal).map_or("a signal", |(_, name)| name)
}
