//! Latencies as memtier_benchmark keeps them: histograms in microseconds, shown in milliseconds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use engine::histogram::Histogram;

const DIGITS: u8 = 3;
/// Of memtier_benchmark, in us.
const LARGEST: u64 = 6_000_000_000;
const US_PER_MS: f64 = 1000.0;
/// Steps until the distance to 100% is halved.
const TICKS: u32 = 10;

/// A step of a distribution.
pub struct Step {
    pub ms: f64,
    /// 0 to 100.
    pub percentile: f64,
    /// Values up to it.
    pub count: u64,
}

pub fn to_us(latency: &Histogram) -> Hdr<u64> {
    let mut us = Hdr::new_with_bounds(1, LARGEST, DIGITS).expect("the bounds are valid");
    for value in latency.to_hdr(DIGITS).iter_recorded() {
        us.saturating_record_n((value.value_iterated_to() / 1000).max(1), value.count_at_value());
    }
    us
}

/// The distribution, in steps that become finer towards 100%.
pub fn steps(us: &Hdr<u64>) -> Vec<Step> {
    let mut count = 0;
    let mut steps: Vec<Step> = Vec::new();
    for value in us.iter_quantiles(TICKS) {
        count += value.count_since_last_iteration();
        let ms = value.value_iterated_to() as f64 / US_PER_MS;
        steps.push(Step { ms, percentile: value.quantile_iterated_to() * 100.0, count });
    }
    if steps.is_empty() {
        steps.push(Step { ms: 0.0, percentile: 100.0, count: 0 });
    }
    steps
}

/// Base64 of an HdrHistogram V2 with deflate.
pub fn base64(us: &Hdr<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(us, &mut bytes).expect("writing to memory does not fail");
    STANDARD.encode(bytes)
}

/// A percentile in ms; 0 when there are no values.
pub fn percentile_ms(latency: &Histogram, percentile: f64) -> f64 {
    latency.quantile(percentile / 100.0) as f64 / 1e6
}
