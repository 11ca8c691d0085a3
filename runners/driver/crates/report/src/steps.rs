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
    /// The mean of its rate.
    pub asked_rps: f64,
    /// Replies that came in it, and what they took from their intended start.
    pub requests: u64,
    pub throughput_rps: f64,
    pub latency_us: LatencyUs,
    pub latency_hdr_v2: String,
}

impl StepResult {
    /// The `steps` parts of the window of `test`, whose rate was `ramp`; of a window that was cut short those that began.
    pub fn all(test: &TestResult, steps: u32, ramp: &Ramp) -> Vec<StepResult> {
        let seconds = ramp.window_s / f64::from(steps);
        let width = (seconds * 1000.0 / test.slices.width_ms as f64).round().max(1.0) as usize;
        let slices = test.slices.requests.chunks(width);
        let parts = slices.zip(&test.intervals.gains).zip(0..steps);
        let step = |((slices, gain), place): ((&[u64], _), u32)| {
            let after_s = f64::from(place) * seconds;
            let due_before = |moment: f64| ramp.due_before(ramp.before_s + moment);
            let requests: u64 = slices.iter().sum();
            StepResult {
                after_s: round(after_s, 6),
                seconds: round(seconds, 6),
                asked_rps: round((due_before(after_s + seconds) - due_before(after_s)) / seconds, 1),
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
        format!(
            "from {:.1} s at {:.0}/s: {:.0}/s, p50 {:.1}, p99 {:.1} us",
            self.after_s, self.asked_rps, self.throughput_rps, self.latency_us.p50, self.latency_us.p99
        )
    }
}
