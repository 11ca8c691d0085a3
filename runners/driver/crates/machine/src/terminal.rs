//! The settings of the terminal on stderr, which a handler of a signal can bring back.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use crate::signals;

/// Leave the second screen, and show the cursor.
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h";

static BEFORE: OnceLock<libc::termios> = OnceLock::new();

/// Remember how the terminal is set: a second signal brings that back, and the first screen, before it ends the process.
pub fn remember() -> io::Result<()> {
    let mut settings = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the call writes the whole structure when it returns 0.
    let settings = unsafe {
        match libc::tcgetattr(libc::STDERR_FILENO, settings.as_mut_ptr()) {
            0 => settings.assume_init(),
            _ => return Err(io::Error::last_os_error()),
        }
    };
    BEFORE.get_or_init(|| settings);
    signals::before_the_end(restore);
    Ok(())
}

/// Bring back the settings that were remembered, and leave the second screen. A handler of a signal may call it.
pub fn restore() {
    if let Some(settings) = BEFORE.get() {
        // SAFETY: both calls may be made in a handler, and what they read lives as long as the process. What they fail to do
        // nothing else can do.
        unsafe {
            libc::tcsetattr(libc::STDERR_FILENO, libc::TCSANOW, settings);
            libc::write(libc::STDERR_FILENO, LEAVE.as_ptr().cast(), LEAVE.len());
        }
    }
}
