//! The results of several load machines as one document.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use machine::environment::Environment;

/// What a document was joined of.
#[derive(Debug, Serialize, Deserialize)]
pub struct Joined {
    /// The share of the longest window that all windows have in common.
    pub overlap: f64,
    /// In the order of their numbers.
    pub parts: Vec<JoinedPart>,
}

/// What one machine measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct JoinedPart {
    pub argv: Vec<String>,
    pub environment: Environment,
    pub window_began_at: Timestamp,
    pub window_s: f64,
    pub requests: u64,
    pub throughput_rps: f64,
    pub client_ns_per_request: f64,
}
