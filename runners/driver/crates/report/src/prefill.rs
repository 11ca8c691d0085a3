//! Keys that were set before the load, as documents report it.

use serde::{Deserialize, Serialize};

use text::units::{per, round};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prefill {
    pub keys: u64,
    pub seconds: f64,
    pub keys_in_server: u64,
    pub server_memory: Option<Growth>,
}

/// The bytes that the server held before and afterwards, and what that is per key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Growth {
    pub before_bytes: u64,
    pub after_bytes: u64,
    pub bytes_per_key: f64,
}

impl Growth {
    pub fn of(before_bytes: u64, after_bytes: u64, keys: u64) -> Growth {
        let bytes_per_key = round(per(after_bytes.saturating_sub(before_bytes) as f64, keys as f64), 2);
        Growth { before_bytes, after_bytes, bytes_per_key }
    }
}
