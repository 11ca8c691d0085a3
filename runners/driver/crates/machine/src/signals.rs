//! Signals that ask the program to end: they are noted, so that a load can stop and tell what it has counted.

use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_int;

static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// The signals that are noted, with their names.
pub const NOTED: [(c_int, &str); 2] = [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM")];

extern "C" fn note(signal: c_int) {
    RECEIVED.store(signal, Ordering::Relaxed);
}

/// Note the signals from now on; the second of a kind ends the process, as it does without this. What the parent process
/// ignores stays ignored.
pub fn note_all() {
    for (signal, _) in NOTED {
        // SAFETY: the structures are plain data that outlive the calls, and `note` only stores a number.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut before);
            if before.sa_sigaction != libc::SIG_IGN {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = note as *const () as libc::sighandler_t;
                action.sa_flags = libc::SA_RESETHAND;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
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
