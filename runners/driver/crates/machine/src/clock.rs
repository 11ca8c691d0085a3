//! The monotonic clock.

use std::io;

use libc::{c_int, clockid_t};

pub fn check(answer: c_int) -> io::Result<c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

pub fn clock_ns(clock: clockid_t) -> io::Result<u64> {
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
