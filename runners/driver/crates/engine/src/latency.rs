//! Latencies summed up in microseconds.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use text::units::round;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyUs {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub max: f64,
}

impl LatencyUs {
    pub fn of(latency: &Histogram) -> LatencyUs {
        let us = |ns: f64| round(ns / 1000.0, 3);
        let quantile = |at: f64| us(latency.quantile(at) as f64);
        LatencyUs {
            min: us(latency.min() as f64),
            mean: us(latency.mean()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            max: us(latency.max() as f64),
        }
    }

    /// The latencies that these sum up, exported as `hdr_base64`; their mean is exact to the ns. Errors say what is wrong.
    pub fn latencies(&self, hdr_base64: &str) -> Result<Histogram, String> {
        let ns = |us: f64| (us * 1000.0).round() as u64;
        Histogram::of_hdr_base64(hdr_base64, ns(self.min), ns(self.max), ns(self.mean))
    }
}
