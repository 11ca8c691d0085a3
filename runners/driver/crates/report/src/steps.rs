//! Results of the parts of a window over which the rate changed.

use serde::{Deserialize, Serialize};

use crate::result::TestResult;
use engine::histogram::Histogram;
use engine::latency::LatencyUs;
use engine::ramp::Ramp;
use text::units::{per, round};

/// One of the equal parts of a window.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepResult {
    /// Since the begin of the window.
    pub after_s: f64,
    pub seconds: f64,
    /// The mean of its rate; left out where the number of connections changed instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_rps: Option<f64>,
    /// The mean of the number of connections that were to send; left out where the rate changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<f64>,
    /// Replies that came in it, and what they took from their intended start.
    pub requests: u64,
    pub throughput_rps: f64,
    pub latency_us: LatencyUs,
    pub latency_hdr_v2: String,
}

impl StepResult {
    /// The `steps` parts of the window of `test`, whose rate, or number of connections, was `ramp`; of a window that was cut short those that began.
    pub fn all(test: &TestResult, steps: u32, ramp: &Ramp) -> Vec<StepResult> {
        let seconds = ramp.window_s / f64::from(steps);
        let width = (seconds * 1000.0 / test.slices.width_ms as f64).round().max(1.0) as usize;
        let slices = test.slices.requests.chunks(width);
        let parts = slices.zip(&test.intervals.gains).zip(0..steps);
        let step = |((slices, gain), place): ((&[u64], _), u32)| {
            let after_s = f64::from(place) * seconds;
            let mean = round(ramp.mean_of(after_s, seconds), 1);
            let requests: u64 = slices.iter().sum();
            StepResult {
                after_s: round(after_s, 6),
                seconds: round(seconds, 6),
                asked_rps: test.open.as_ref().map(|_| mean),
                clients: if test.open.is_none() { Some(mean) } else { None },
                requests,
                throughput_rps: 0.0,
                latency_us: LatencyUs::of(&Histogram::default()),
                latency_hdr_v2: String::new(),
            }
            .counted(requests, &test.latency.part(gain))
        };
        parts.map(step).collect()
    }

    /// The same step with so many `requests`, which took `latency`.
    pub fn counted(self, requests: u64, latency: &Histogram) -> StepResult {
        StepResult {
            requests,
            throughput_rps: round(per(requests as f64, self.seconds), 1),
            latency_us: LatencyUs::of(latency),
            latency_hdr_v2: latency.to_hdr_base64(),
            ..self
        }
    }

    /// One line for those who read.
    pub fn note(&self) -> String {
        let rate = self.asked_rps.map(|rate| format!("at {rate:.0}/s"));
        let load = rate.or(self.clients.map(|clients| format!("with {clients:.1} clients")));
        format!(
            "from {:.1} s {}: {:.0}/s, p50 {:.1}, p99 {:.1} us",
            self.after_s,
            load.unwrap_or_default(),
            self.throughput_rps,
            self.latency_us.p50,
            self.latency_us.p99
        )
    }
}
