//! The monotonic clock, and the moments of the calendar on it.

use std::io;
use std::time::{Duration, SystemTime};

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

/// What the clock of the calendar shows at `moment` of the monotonic one; both are read now, so it is as exact as the former
/// runs evenly.
pub fn calendar_time(moment: u64) -> SystemTime {
    let (now, here) = (SystemTime::now(), now());
    match moment.checked_sub(here) {
        Some(ahead) => now + Duration::from_nanos(ahead),
        None => now - Duration::from_nanos(here - moment),
    }
}

/// The moment on the monotonic clock at which that of the calendar shows `time`, 0 if that was before it began.
pub fn moment_of(time: SystemTime) -> u64 {
    let here = now();
    match time.duration_since(SystemTime::now()) {
        Ok(ahead) => here + ahead.as_nanos() as u64,
        Err(over) => here.saturating_sub(over.duration().as_nanos() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_and_the_monotonic_clock_lead_to_each_other() {
        let minute = Duration::from_secs(60);
        for time in [SystemTime::now() + minute, SystemTime::now() - minute] {
            let back = calendar_time(moment_of(time));
            let apart = back.duration_since(time).unwrap_or_else(|error| error.duration());
            assert!(apart < Duration::from_millis(50), "{apart:?}");
        }
        assert_eq!(moment_of(SystemTime::UNIX_EPOCH), 0);
    }
}
