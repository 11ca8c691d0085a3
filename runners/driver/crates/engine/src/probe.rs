//! Connections that ask at a low rate beside the load.

use serde::{Deserialize, Serialize};

use crate::schedule::check_rate;
use text::checks::require;
use text::failure::Failure;

/// Connections of a thread of their own that send at a low rate beside the load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    #[serde(default = "one")]
    pub clients: usize,
    #[serde(default = "hundred")]
    pub rate: f64,
}

fn one() -> usize {
    1
}

fn hundred() -> f64 {
    100.0
}

impl Probe {
    /// A usage failure unless the settings are valid; `clients` and `rate` are their names.
    pub fn check(self, clients: &str, rate: &str) -> Result<Probe, Failure> {
        require(self.clients > 0, &format!("{clients} cannot be 0"), "give at least 1 client")?;
        check_rate(self.rate, rate)?;
        Ok(self)
    }
}

impl Default for Probe {
    fn default() -> Probe {
        Probe { clients: one(), rate: hundred() }
    }
}
