//! The metrics of both sides as ratios, and what they say.

use serde::Serialize;

use crate::contest::Slice;
use crate::estimate::trimmed_mean;
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
    let logs = match metric {
        P99 => logs_of_groups(groups),
        _ => logs(slices, |slice| value(metric, slice)),
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
    let Sides { base, head } = results.map(|result| total(metric, result));
    Some(Ratio {
        metric,
        title,
        base: base?,
        head: head?,
        ratio: estimate.center.exp(),
        low,
        high,
        pairs: logs.len(),
        verdict,
    })
}

/// The ratio of the server's CPU time, or else of the rates, so far.
pub fn so_far(slices: &[Slice]) -> Option<(&'static str, f64, Option<f64>)> {
    let of = |metric| trimmed_mean(&logs(slices, |slice| value(metric, slice))).map(|it| (metric, it));
    let (metric, estimate) = of(SERVER_CPU).or_else(|| of(THROUGHPUT))?;
    Some((metric, estimate.center, estimate.reach))
}

/// The logarithms of head over base, for each pair of neighbouring slices in which both are above 0.
fn logs(slices: &[Slice], value: impl Fn(&Slice) -> Option<f64>) -> Vec<f64> {
    let log = |pair: &[Slice]| {
        let at = pair.iter().position(|slice| slice.side == Side::Head)?;
        log_ratio(value(&pair[1 - at])?, value(&pair[at])?)
    };
    slices.chunks_exact(2).filter_map(log).collect()
}

fn logs_of_groups(groups: &Sides<&[Histogram]>) -> Vec<f64> {
    let p99 = |latency: &Histogram| latency.quantile(0.99) as f64;
    let pairs = groups.base.iter().zip(groups.head);
    pairs.filter_map(|(base, head)| log_ratio(p99(base), p99(head))).collect()
}

fn log_ratio(base: f64, head: f64) -> Option<f64> {
    (base > 0.0 && head > 0.0).then(|| (head / base).ln())
}

fn value(metric: &str, slice: &Slice) -> Option<f64> {
    let requests = slice.requests as f64;
    match metric {
        SERVER_CPU => slice.server_cpu_ns.map(|ns| ns as f64 / requests),
        CLIENT_CPU => Some(slice.client_cpu_ns as f64 / requests),
        _ => Some(requests / slice.ns as f64),
    }
    .filter(|value| value.is_finite())
}

/// The metric over all slices of a side.
fn total(metric: &str, result: &TestResult) -> Option<f64> {
    match metric {
        SERVER_CPU => result.server_cpu.as_ref().map(|cpu| cpu.ns_per_request),
        THROUGHPUT => Some(result.throughput_rps),
        P99 => Some(result.latency_us.p99),
        _ => Some(result.client_cpu.ns_per_request),
    }
}
