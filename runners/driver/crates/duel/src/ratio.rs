//! The metrics of both sides as ratios, and what they say.

use serde::Serialize;

use crate::contest::Slice;
use crate::estimate::{kept, trimmed_mean};
use crate::sides::{Side, Sides};
use engine::histogram::Histogram;
use report::result::TestResult;

pub const SERVER_CPU: &str = "server_cpu_ns_per_request";
pub const THROUGHPUT: &str = "throughput_rps";
pub const P99: &str = "latency_us_p99";
const CLIENT_CPU: &str = "client_cpu_ns_per_request";

/// A histogram tells two values apart that differ by this part of 1.
const RESOLUTION: f64 = 0.004;

/// A metric of both sides.
#[derive(Debug, Serialize)]
pub struct Ratio {
    pub metric: &'static str,
    #[serde(skip)]
    pub title: &'static str,
    /// The value of each side over the pairs of slices that are kept; of `latency_us_p99` over all slices.
    pub base: f64,
    pub head: f64,
    /// Head over base, and its 95% interval; null when there are too few pairs.
    pub ratio: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// The pairs of slices, or of groups of slices, that it was made of.
    pub pairs: usize,
    /// What head is: `cheaper`, `dearer`, `faster`, `slower`, `no difference`, `unknown`.
    pub verdict: &'static str,
}

pub const NO_DIFFERENCE: &str = "no difference";
pub const UNKNOWN: &str = "unknown";

/// Name and title of a metric, and the words for less and for more of it.
type Metric = (&'static str, &'static str, [&'static str; 2]);

const METRICS: [Metric; 4] = [
    (SERVER_CPU, "server ns/req", ["cheaper", "dearer"]),
    (THROUGHPUT, "requests/s", ["slower", "faster"]),
    (P99, "p99 us", ["faster", "slower"]),
    (CLIENT_CPU, "client ns/req", ["cheaper", "dearer"]),
];

/// The ratios of all metrics that were measured.
pub fn ratios(slices: &[Slice], groups: &Sides<&[Histogram]>, results: &Sides<&TestResult>) -> Vec<Ratio> {
    METRICS.into_iter().filter_map(|metric| ratio(metric, slices, groups, results)).collect()
}

fn ratio(
    (metric, title, [less, more]): Metric,
    slices: &[Slice],
    groups: &Sides<&[Histogram]>,
    results: &Sides<&TestResult>,
) -> Option<Ratio> {
    let (logs, values) = match metric {
        P99 => (logs_of_groups(groups), results.map(|result| result.latency_us.p99)),
        _ => by_slices(metric, slices),
    };
    let estimate = trimmed_mean(&logs)?;
    let slack = if metric == P99 { RESOLUTION } else { 0.0 };
    let end = |direction: f64| Some((estimate.center + direction * (estimate.reach? + slack)).exp());
    let (low, high) = (end(-1.0), end(1.0));
    let verdict = match (low, high) {
        (Some(low), _) if low > 1.0 => more,
        (_, Some(high)) if high < 1.0 => less,
        (Some(_), Some(_)) => NO_DIFFERENCE,
        _ => UNKNOWN,
    };
    Some(Ratio {
        metric,
        title,
        base: values.base,
        head: values.head,
        ratio: estimate.center.exp(),
        low,
        high,
        pairs: logs.len(),
        verdict,
    })
}

/// The ratio of the server's CPU time, or else of the rates, so far.
pub fn so_far(slices: &[Slice]) -> Option<(&'static str, f64, Option<f64>)> {
    let of = |metric| trimmed_mean(&by_slices(metric, slices).0).map(|it| (metric, it));
    let (metric, estimate) = of(SERVER_CPU).or_else(|| of(THROUGHPUT))?;
    Some((metric, estimate.center, estimate.reach))
}

/// The logarithms of head over base of each pair of neighbouring slices in which both are above 0, and the value of
/// each side over the pairs that the trimmed mean keeps.
fn by_slices(metric: &str, slices: &[Slice]) -> (Vec<f64>, Sides<f64>) {
    let pairs: Vec<Sides<Share>> = slices.chunks_exact(2).filter_map(|pair| shares(metric, pair)).collect();
    let logs: Vec<f64> = pairs.iter().map(|pair| (pair.head.value() / pair.base.value()).ln()).collect();
    let kept: Vec<&Sides<Share>> = kept(&logs).into_iter().map(|at| &pairs[at]).collect();
    let sum = |side: fn(&Sides<Share>) -> Share| {
        let of = |part: fn(Share) -> f64| kept.iter().map(|pair| part(side(pair))).sum::<f64>();
        of(|share| share.amount) / of(|share| share.per)
    };
    let values = Sides { base: sum(|pair| pair.base), head: sum(|pair| pair.head) };
    (logs, values)
}

fn shares(metric: &str, pair: &[Slice]) -> Option<Sides<Share>> {
    let head = pair.iter().position(|slice| slice.side == Side::Head)?;
    Some(Sides { base: Share::of(metric, &pair[1 - head])?, head: Share::of(metric, &pair[head])? })
}

/// What a slice adds to a metric that is a quotient.
#[derive(Clone, Copy)]
struct Share {
    amount: f64,
    per: f64,
}

impl Share {
    /// None where it is not known, or 0.
    fn of(metric: &str, slice: &Slice) -> Option<Share> {
        let requests = slice.requests as f64;
        let (amount, per) = match metric {
            SERVER_CPU => (slice.server_cpu_ns? as f64, requests),
            CLIENT_CPU => (slice.client_cpu_ns as f64, requests),
            _ => (requests * 1e9, slice.ns as f64),
        };
        (amount > 0.0 && per > 0.0).then_some(Share { amount, per })
    }

    fn value(self) -> f64 {
        self.amount / self.per
    }
}

fn logs_of_groups(groups: &Sides<&[Histogram]>) -> Vec<f64> {
    let p99 = |latency: &Histogram| latency.quantile(0.99) as f64;
    let pairs = groups.base.iter().map(p99).zip(groups.head.iter().map(p99));
    pairs.filter(|(base, head)| *base > 0.0 && *head > 0.0).map(|(base, head)| (head / base).ln()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(side: Side, server_cpu_ns: Option<u64>) -> Slice {
        let requests = 1000;
        Slice {
            side,
            began_ns: 0,
            ns: 20_000_000,
            requests,
            errors: 0,
            latencies: requests,
            latency_us_p50: 1.0,
            latency_us_p99: 2.0,
            server_cpu_ns,
            resting_cpu_ns: None,
            client_cpu_ns: 1,
        }
    }

    #[test]
    fn the_values_are_those_of_the_pairs_that_are_kept() {
        // Head takes 100 to 129 ns per request: a fifth of 30 pairs at each end leaves 106 to 123.
        let pairs = (0..30)
            .rev()
            .map(|at| [slice(Side::Head, Some(100_000 + 1000 * at)), slice(Side::Base, Some(80_000))]);
        let slices: Vec<Slice> = pairs.flatten().collect();
        let (logs, values) = by_slices(SERVER_CPU, &slices);
        assert_eq!(logs.len(), 30);
        assert_eq!(values, Sides { base: 80.0, head: 114.5 });
    }

    #[test]
    fn pairs_in_which_a_side_is_unknown_or_idle_do_not_count() {
        let sides = |base, head| [slice(Side::Base, base), slice(Side::Head, head)];
        let slices =
            [sides(Some(0), Some(9000)), sides(None, Some(9000)), sides(Some(4000), Some(8000))].concat();
        let (logs, values) = by_slices(SERVER_CPU, &slices);
        assert_eq!(logs, [2f64.ln()]);
        assert_eq!(values, Sides { base: 4.0, head: 8.0 });
        assert!(trimmed_mean(&by_slices(SERVER_CPU, &slices[..4]).0).is_none());
    }
}
