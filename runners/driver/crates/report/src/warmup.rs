//! What went before the window, as documents report it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub const NO_STEADY_STATE: &str = "no_steady_state";

/// What went before the window, as documents report it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    pub seconds: f64,
    /// Slices that were looked at; 0 when the time was fixed.
    pub slices: u64,
    /// Null when the time was fixed.
    pub steady: Option<bool>,
    /// Of the last ten slices, along the line fitted to them.
    pub rate_change: Option<f64>,
    pub server_cpu_change: Option<f64>,
}

impl WarmUp {
    /// A warm-up of a fixed time.
    pub fn fixed(time: Duration) -> WarmUp {
        WarmUp {
            seconds: time.as_secs_f64(),
            slices: 0,
            steady: None,
            rate_change: None,
            server_cpu_change: None,
        }
    }
}
