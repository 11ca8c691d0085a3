//! Checks of settings, shared by all front ends.

use std::time::Duration;

use crate::failure::Failure;

const LONGEST: Duration = Duration::from_secs(24 * 3600);

pub fn duration(seconds: f64, option: &str) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= LONGEST).ok_or_else(|| {
        Failure::usage(format!("{option} cannot be {seconds}"), "give seconds between 0 and 86400")
    })
}

/// A usage failure unless `holds`.
pub fn require(holds: bool, cause: &str, remedy: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::usage(cause, remedy)) }
}
