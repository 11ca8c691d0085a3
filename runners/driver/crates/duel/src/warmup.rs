//! The warm-up of both servers, which also says how wide the measured slices are.

use std::time::Duration;

use crate::contest::{Contest, Measured};
use crate::plan::{WARMUP_SLICE_MS, WIDEST_CHOSEN_MS};
use crate::sides::Sides;
use engine::stage::Stage;
use engine::steadiness::{SETTLED_SLICES, change, is_settled};
use report::warmup::WarmUp;
use text::failure::Failure;
use text::units::{NS_PER_MS, ns, per, round};
use workload::phase::Phase;

/// Of a slice, at most this part passes while the last replies of its connections come in ...
const ROUNDS: f64 = 20.0;
/// ... and it has at least so many requests, within these limits.
const FEWEST_REQUESTS: f64 = 1000.0;
const NARROWEST_MS: f64 = 20.0;
const WIDEST_MS: f64 = WIDEST_CHOSEN_MS as f64;

/// The slices of one side.
#[derive(Default)]
struct Series {
    /// Of each slice: replies per ns, the server's CPU time per reply in ns, and the mean latency in ns.
    rates: Vec<f64>,
    costs: Vec<f64>,
    latencies_ns: Vec<f64>,
}

impl Series {
    fn add(&mut self, measured: &Measured) {
        let requests = measured.slice.requests as f64;
        self.rates.push(requests / measured.slice.ns as f64);
        self.costs.extend(measured.slice.server_cpu_ns.map(|cpu_ns| per(cpu_ns as f64, requests)));
        self.latencies_ns.push(measured.record.latency.mean());
    }

    fn is_steady(&self) -> bool {
        [&self.rates, &self.costs].into_iter().all(|series| is_settled(latest(series)))
    }

    /// The narrowest slice, in ms, that this side should have, by the best slice of the warm-up: where other work on
    /// the machine slowed the rest, wider slices would only be hit more often.
    fn slice_ms(&self) -> f64 {
        let rate = self.rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let latency_ns = self.latencies_ns.iter().copied().fold(f64::INFINITY, f64::min);
        (ROUNDS * latency_ns).max(FEWEST_REQUESTS / rate) / NS_PER_MS as f64
    }

    /// What documents report of it; with `steady`, if the time was not fixed.
    fn end(&self, seconds: f64, waited: bool) -> WarmUp {
        if !waited {
            return WarmUp::fixed(Duration::from_secs_f64(seconds));
        }
        let change_of = |series: &[f64]| change(latest(series)).map(|change| round(change, 4));
        WarmUp {
            seconds,
            slices: self.rates.len() as u64,
            steady: Some(self.is_steady()),
            rate_change: change_of(&self.rates),
            server_cpu_change: change_of(&self.costs),
        }
    }
}

fn latest(series: &[f64]) -> &[f64] {
    &series[series.len().saturating_sub(SETTLED_SLICES)..]
}

/// What the warm-up of each side was, and the width of a slice that suits both, ms.
pub struct WarmedUp {
    pub warmups: Sides<WarmUp>,
    pub slice_ms: u64,
}

/// Warm up both servers as `phase` says: for a time, or until both are steady.
pub fn warm_up(
    contest: &mut Contest,
    phase: &Phase,
    stage: impl Fn(u64, u64) -> Stage,
) -> Result<WarmedUp, Failure> {
    let slice_ns = WARMUP_SLICE_MS * NS_PER_MS;
    let least = ns(phase.warmup).div_ceil(slice_ns).max(1);
    let most = phase.warmup_most.map_or(least, |most| ns(most) / slice_ns);
    let mut sides = Sides::<Series>::default();
    let mut pairs = 0;
    while pairs < least || pairs < most && !(sides.base.is_steady() && sides.head.is_steady()) {
        let measured = contest.pair(stage(slice_ns, pairs))?;
        sides.base.add(&measured.base);
        sides.head.add(&measured.head);
        pairs += 1;
    }
    let seconds = (pairs * WARMUP_SLICE_MS) as f64 / 1000.0;
    let widest = sides.base.slice_ms().max(sides.head.slice_ms());
    Ok(WarmedUp {
        warmups: sides.map(|series| series.end(seconds, phase.warmup_most.is_some())),
        slice_ms: widest.clamp(NARROWEST_MS, WIDEST_MS).ceil() as u64,
    })
}
