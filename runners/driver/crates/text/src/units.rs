//! Units, and arithmetic for people.

use std::time::Duration;

/// `amount / count`, and 0 when there is nothing to divide by.
pub fn per(amount: f64, count: f64) -> f64 {
    if count == 0.0 { 0.0 } else { amount / count }
}

pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

pub fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

pub const NS_PER_MS: u64 = 1_000_000;
pub const NS_PER_S: u64 = 1_000_000_000;
