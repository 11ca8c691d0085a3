//! The metrics of a test that are compared, and the intervals of their ratios.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::result_file::{Test, ranked};
use crate::statistics::{self, Bounded, Estimate, Ratio};

/// What the intervals are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Slices and latencies of one run per side.
    Slices,
    /// Runs of each side.
    Runs,
}

/// The name of a metric in the document and for a person, and the words for less and for more of it.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    title: &'static str,
    less: &'static str,
    more: &'static str,
    source: Source,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    Throughput,
    ServerCpu,
    ClientCpu,
    /// A quantile of the latencies.
    Latency(f64),
}

const METRICS: [Metric; 7] = [
    Metric {
        name: "throughput_rps",
        title: "requests/s",
        less: "slower",
        more: "faster",
        source: Source::Throughput,
    },
    cpu("server_cpu_ns_per_request", "server ns/req", Source::ServerCpu),
    cpu("client_cpu_ns_per_request", "client ns/req", Source::ClientCpu),
    latency("latency_us_p50", "p50 us", 0.5),
    latency("latency_us_p90", "p90 us", 0.9),
    latency("latency_us_p99", "p99 us", 0.99),
    latency("latency_us_p99_9", "p99.9 us", 0.999),
];

const fn cpu(name: &'static str, title: &'static str, source: Source) -> Metric {
    Metric { name, title, less: "cheaper", more: "dearer", source }
}

const fn latency(name: &'static str, title: &'static str, quantile: f64) -> Metric {
    Metric { name, title, less: "faster", more: "slower", source: Source::Latency(quantile) }
}

#[derive(Debug, Serialize)]
pub struct Comparison {
    pub metric: &'static str,
    #[serde(skip)]
    pub title: &'static str,
    #[serde(skip)]
    pub is_latency: bool,
    pub base: f64,
    pub new: f64,
    /// `new` over `base`, and its interval.
    pub ratio: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// A change by so large a part of 1 would have been seen in four of five repetitions.
    pub detectable: Option<f64>,
    pub verdict: &'static str,
    /// Why the interval, or an end of it, is not known.
    pub reason: Option<&'static str>,
}

/// What can be said of each metric: a comparison, or why there is none.
#[derive(Debug, Default)]
pub struct Compared {
    pub metrics: Vec<Comparison>,
    pub left_out: Vec<String>,
}

/// The driver's histogram has values within this part of 1.
const RESOLUTION: f64 = 0.002;
pub const NO_DIFFERENCE: &str = "no difference seen";
pub const UNKNOWN: &str = "unknown";
const FEW_SLICES: &str = "the slices of a run are fewer than 10, or nothing is in them";
const FEW_LATENCIES: &str = "a run has too few latencies for so high a percentile";

struct Side<'a> {
    runs: &'a [Test],
    /// Those of each run.
    latencies: Vec<Histogram<u64>>,
}

impl Side<'_> {
    fn of(runs: &[Test]) -> Result<Side<'_>, String> {
        Ok(Side { latencies: runs.iter().map(Test::latencies).collect::<Result<_, _>>()?, runs })
    }

    fn of_runs(&self, source: Source) -> impl Iterator<Item = Option<f64>> {
        self.runs.iter().zip(&self.latencies).map(move |(test, latencies)| source.value(test, latencies))
    }
}

/// All metrics that were measured. Errors say what is wrong with the latencies.
pub fn compare(method: Method, base: &[Test], new: &[Test]) -> Result<Compared, String> {
    let (base, new) = (Side::of(base)?, Side::of(new)?);
    let mut compared = Compared::default();
    for metric in METRICS.iter().filter(|metric| metric.source.is_told(&base) || metric.source.is_told(&new))
    {
        match metric.compare(method, &base, &new) {
            Some(comparison) => compared.metrics.push(comparison),
            None => compared.left_out.push(format!("{} is not above 0 in all files", metric.name)),
        }
    }
    Ok(compared)
}

impl Metric {
    /// None when a side has no such value above 0.
    fn compare(&self, method: Method, base: &Side, new: &Side) -> Option<Comparison> {
        let (olds, news) = (self.source.values(base)?, self.source.values(new)?);
        let (before, after) = (center(&olds), center(&news));
        let interval = match (method, self.source) {
            (Method::Runs, _) => both(statistics::of_runs(&olds), statistics::of_runs(&news)),
            (Method::Slices, Source::Latency(quantile)) => Some(statistics::ratio_of_bounded(
                bounded(&base.latencies[0], quantile),
                bounded(&new.latencies[0], quantile),
            )),
            (Method::Slices, source) => {
                both(source.estimate(&base.runs[0], before), source.estimate(&new.runs[0], after))
            }
        };
        let nothing = Ratio { ratio: after / before, low: None, high: None, detectable: None };
        let Ratio { low, high, detectable, .. } = interval.unwrap_or(nothing);
        let reason = match (low.and(high), method, self.source) {
            (None, Method::Slices, Source::Latency(_)) => Some(FEW_LATENCIES),
            (None, ..) => Some(FEW_SLICES),
            (Some(_), ..) => None,
        };
        let verdict = match (low, high) {
            (Some(low), _) if low > 1.0 => self.more,
            (_, Some(high)) if high < 1.0 => self.less,
            (Some(_), Some(_)) => NO_DIFFERENCE,
            _ => UNKNOWN,
        };
        Some(Comparison {
            metric: self.name,
            title: self.title,
            is_latency: matches!(self.source, Source::Latency(_)),
            base: before,
            new: after,
            ratio: after / before,
            low,
            high,
            detectable,
            verdict,
            reason,
        })
    }
}

fn both(base: Option<Estimate>, new: Option<Estimate>) -> Option<Ratio> {
    Some(statistics::ratio(base?, new?))
}

/// The geometric mean.
fn center(values: &[f64]) -> f64 {
    match values {
        [value] => *value,
        _ => (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp(),
    }
}

impl Source {
    /// The value in one run; none if it was not measured.
    fn value(self, test: &Test, latencies: &Histogram<u64>) -> Option<f64> {
        match self {
            Source::Throughput => Some(test.throughput_rps),
            Source::ServerCpu => test.server_cpu.map(|cpu| cpu.ns_per_request),
            Source::ClientCpu => Some(test.client_cpu.ns_per_request),
            Source::Latency(quantile) => Some(bounded(latencies, quantile).value),
        }
    }

    fn is_told(self, side: &Side) -> bool {
        side.of_runs(self).any(|value| value.is_some())
    }

    /// The value of each run; none unless all have one above 0.
    fn values(self, side: &Side) -> Option<Vec<f64>> {
        side.of_runs(self).map(|value| value.filter(|value| *value > 0.0)).collect()
    }

    /// `value`, that of the whole window, with the error that the full slices of the run show; none for percentiles,
    /// which slices do not have.
    fn estimate(self, test: &Test, value: f64) -> Option<Estimate> {
        Some(Estimate { log: value.ln(), ..self.of_slices(test)? })
    }

    fn of_slices(self, test: &Test) -> Option<Estimate> {
        let whole = test.whole_slices();
        let numbers = |list: &[u64]| -> Option<Vec<f64>> {
            Some(list.get(..whole)?.iter().map(|number| *number as f64).collect())
        };
        let requests = numbers(&test.slices.requests)?;
        match self {
            Source::Throughput => {
                let seconds = test.slices.width_ms as f64 / 1000.0;
                statistics::of_slices(&requests, &vec![seconds; whole])
            }
            Source::ServerCpu => statistics::of_slices(&numbers(&test.slices.server_cpu_ns)?, &requests),
            Source::ClientCpu => statistics::of_slices(&numbers(&test.slices.client_cpu_ns)?, &requests),
            Source::Latency(_) => None,
        }
    }
}

/// A quantile of the latencies of one run in us.
fn bounded(latencies: &Histogram<u64>, quantile: f64) -> Bounded {
    let us = |rank: u64| ranked(latencies, rank) / 1000.0;
    let (low, high) = statistics::ranks(latencies.len(), quantile);
    let rank = (quantile * latencies.len() as f64).ceil().max(1.0) as u64;
    Bounded {
        value: us(rank),
        low: low.map(|rank| us(rank) * (1.0 - RESOLUTION)),
        high: high.map(|rank| us(rank) * (1.0 + RESOLUTION)),
    }
}
