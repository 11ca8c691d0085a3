//! The search for the highest rate under a limit, as documents report it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// What was tried, in that order, and what was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Search {
    pub percentile: f64,
    pub limit_us: f64,
    pub steps: Vec<Step>,
    /// The highest rate that held the limit twice; none if there was none.
    pub highest_rps: Option<f64>,
    /// Flags of the lowest rate that missed the limit: the driver itself may have missed it.
    pub limited_by: Vec<Cow<'static, str>>,
}

/// One rate that was tried.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    pub asked_rps: f64,
    pub throughput_rps: f64,
    pub latency_us: f64,
    pub unsent: u64,
    /// Whether the limit was kept and everything was sent.
    pub held: bool,
    pub flags: Vec<Cow<'static, str>>,
}
