//! The result as a document, schema `speedbench.v1`. `README.md` describes each field.

use serde::Serialize;

use crate::crew::Outcome;
use crate::environment::Environment;
use crate::hdr_log::Intervals;
use crate::histogram::{Gain, Histogram};
use crate::job::Job;
use crate::meter::Record;
use crate::modes::Findings;
use crate::proto::Tally;
use crate::steadiness::is_unsteady;
use crate::sys::Usage;

pub const SCHEMA: &str = "speedbench.v1";
/// A driver thread above this share of its core measures itself.
const BOUND_ABOVE: f64 = 0.85;

#[derive(Debug, Serialize)]
pub struct Document {
    pub schema: &'static str,
    pub driver: Driver,
    pub target: TargetName,
    pub started_at: String,
    pub environment: Environment,
    pub prefill: Option<Prefill>,
    pub tests: Vec<TestResult>,
}

#[derive(Debug, Serialize)]
pub struct Driver {
    pub version: &'static str,
    pub digest: String,
    pub argv: Vec<String>,
    pub seed: u64,
    pub threads: usize,
    pub engine: &'static str,
    pub clock: &'static str,
}

#[derive(Debug, Serialize)]
pub struct TargetName {
    pub protocol: &'static str,
    pub address: String,
}

#[derive(Debug, Serialize)]
pub struct Prefill {
    pub keys: u64,
    pub seconds: f64,
    pub keys_in_server: u64,
}

#[derive(Debug, Serialize)]
pub struct Workload {
    pub test: String,
    pub clients: usize,
    pub pipeline: usize,
    pub keyspace: u64,
    pub value_bytes: usize,
    pub warmup_s: f64,
    pub duration_s: Option<f64>,
    pub requests: Option<u64>,
}

#[derive(Debug, Serialize)]
pub struct TestResult {
    pub name: String,
    pub workload: Workload,
    pub mode: &'static str,
    pub window_s: f64,
    pub requests: u64,
    pub unfinished: u64,
    pub throughput_rps: f64,
    pub hits: u64,
    pub misses: u64,
    pub pushes: u64,
    pub errors: Errors,
    pub latency_us: LatencyUs,
    pub latency_hdr_v2: String,
    pub client_cpu: ClientCpu,
    pub server_cpu: Option<ServerCpu>,
    pub slices: Slices,
    pub flags: Vec<&'static str>,
    #[serde(flatten)]
    pub findings: Findings,
    /// What `latency_us` and `latency_hdr_v2` tell of, for the outputs that are no documents.
    #[serde(skip)]
    pub latency: Histogram,
    #[serde(skip)]
    pub intervals: Intervals,
}

#[derive(Debug, Serialize)]
pub struct Errors {
    pub count: u64,
    pub first: Option<String>,
}

#[derive(Debug, Serialize)]
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

#[derive(Debug, Serialize)]
pub struct ClientCpu {
    pub user_ns: u64,
    pub system_ns: u64,
    pub ns_per_request: f64,
    pub busiest_thread: f64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

#[derive(Debug, Serialize)]
pub struct ServerCpu {
    pub pid: u32,
    pub ns: u64,
    pub ns_per_request: f64,
}

#[derive(Debug, Serialize)]
pub struct Slices {
    pub width_ms: u64,
    pub requests: Vec<u64>,
    pub server_cpu_ns: Vec<u64>,
}

impl Document {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("the document has string keys only")
    }
}

impl TestResult {
    /// What the threads of `job` counted, as one result.
    pub fn new(job: &Job, workload: Workload, outcome: &Outcome) -> TestResult {
        let total = Total::of(outcome);
        let requests = total.inside.replies;
        let busiest_thread = total.busiest_thread;
        let whole_slices = whole_slices(&total.slices, total.window_ns, job.slice_ns);
        TestResult {
            name: job.name.clone(),
            workload,
            mode: "closed",
            window_s: round(seconds(total.window_ns), 6),
            requests,
            unfinished: total.unfinished,
            throughput_rps: round(per(requests as f64, seconds(total.window_ns)), 1),
            hits: if job.reads {
                requests - total.inside.nulls - total.inside.errors
            } else {
                total.inside.hits
            },
            misses: if job.reads { total.inside.nulls } else { total.inside.misses },
            pushes: total.inside.pushes,
            latency_us: LatencyUs::of(&total.latency),
            latency_hdr_v2: total.latency.to_hdr_base64(),
            client_cpu: ClientCpu::of(total.usage, requests, busiest_thread),
            server_cpu: job.server_pid.map(|pid| ServerCpu::of(pid, &total.server_ns, requests)),
            flags: flags(busiest_thread, whole_slices),
            slices: Slices::of(&total, job),
            intervals: intervals(job, outcome),
            errors: Errors { count: total.inside.errors, first: total.inside.first_error },
            latency: total.latency,
            findings: Findings::default(),
        }
    }
}

fn flags(busiest_thread: f64, whole_slices: &[u64]) -> Vec<&'static str> {
    let raised = [("client_bound", busiest_thread > BOUND_ABOVE), ("unsteady", is_unsteady(whole_slices))];
    raised.into_iter().filter(|(_, raised)| *raised).map(|(flag, _)| flag).collect()
}

/// The intervals of all threads added up.
fn intervals(job: &Job, outcome: &Outcome) -> Intervals {
    let mut gains: Vec<Gain> = Vec::new();
    for record in &outcome.records {
        gains.resize(gains.len().max(record.intervals.len()), Gain::default());
        gains.iter_mut().zip(&record.intervals).for_each(|(sum, gain)| sum.merge(gain));
    }
    Intervals {
        begun_at: outcome.span.counts_from,
        width_ns: job.slice_ns * job.interval_slices.unwrap_or(0) as u64,
        ended_at: outcome.records.iter().map(|record| record.ended_at).max().unwrap_or(0),
        gains,
    }
}

/// The slices without a last one that is shorter than the others.
fn whole_slices(slices: &[u64], window_ns: u64, slice_ns: u64) -> &[u64] {
    let whole = (window_ns / slice_ns) as usize;
    &slices[..slices.len().min(whole)]
}

/// The records of all threads added up.
pub struct Total {
    pub window_ns: u64,
    pub inside: Tally,
    unfinished: u64,
    pub latency: Histogram,
    slices: Vec<u64>,
    server_ns: Vec<u64>,
    usage: Usage,
    busiest_thread: f64,
}

impl Total {
    pub fn of(outcome: &Outcome) -> Total {
        let records = &outcome.records;
        let last = records.iter().max_by_key(|record| record.closed_at);
        let ended_at = last.map_or(0, |record| record.closed_at).min(outcome.span.ends_at);
        let mut total = Total {
            window_ns: ended_at.saturating_sub(outcome.span.counts_from),
            inside: Tally::default(),
            unfinished: records.iter().map(|record| record.unfinished).sum(),
            latency: Histogram::default(),
            slices: Vec::new(),
            // Each thread reads the same clock; the one that ended last saw the whole window.
            server_ns: last.map_or(Vec::new(), |record| record.server_ns.clone()),
            usage: Usage::default(),
            busiest_thread: records.iter().map(busy_share).fold(0.0, f64::max),
        };
        for record in records {
            total.inside.add(record.inside.clone());
            total.latency.merge(&record.latency);
            total.usage = total.usage.plus(record.usage);
            add_slices(&mut total.slices, &record.slices);
        }
        total
    }
}

/// The share of its core that a thread used in the window, 0 to 1.
fn busy_share(record: &Record) -> f64 {
    per(record.usage.cpu_ns() as f64, (record.closed_at - record.opened_at) as f64)
}

fn add_slices(total: &mut Vec<u64>, slices: &[u64]) {
    total.resize(total.len().max(slices.len()), 0);
    for (sum, slice) in total.iter_mut().zip(slices) {
        *sum += slice;
    }
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
}

impl ClientCpu {
    fn of(usage: Usage, requests: u64, busiest_thread: f64) -> ClientCpu {
        ClientCpu {
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            ns_per_request: round(per(usage.cpu_ns() as f64, requests as f64), 2),
            busiest_thread: round(busiest_thread, 4),
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
        }
    }
}

impl ServerCpu {
    fn of(pid: u32, readings: &[u64], requests: u64) -> ServerCpu {
        let ns = readings.last().unwrap_or(&0) - readings.first().unwrap_or(&0);
        ServerCpu { pid, ns, ns_per_request: round(per(ns as f64, requests as f64), 2) }
    }
}

impl Slices {
    fn of(total: &Total, job: &Job) -> Slices {
        Slices {
            width_ms: job.slice_ns / 1_000_000,
            requests: total.slices.clone(),
            server_cpu_ns: total.server_ns.windows(2).map(|pair| pair[1] - pair[0]).collect(),
        }
    }
}

/// `amount / count`, and 0 when there is nothing to divide by.
pub fn per(amount: f64, count: f64) -> f64 {
    if count == 0.0 { 0.0 } else { amount / count }
}

pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_up_above_its_limit_only() {
        let falling: Vec<u64> = (0..30).map(|slice| 1000 - 10 * slice).collect();
        assert_eq!(flags(BOUND_ABOVE, &[1000; 30]), [""; 0]);
        assert_eq!(flags(0.86, &[1000; 30]), ["client_bound"]);
        assert_eq!(flags(0.99, &falling), ["client_bound", "unsteady"]);
    }

    #[test]
    fn a_short_last_slice_is_not_judged() {
        assert_eq!(whole_slices(&[10, 10, 4], 240, 100), [10, 10]);
        assert_eq!(whole_slices(&[10, 10], 200, 100), [10, 10]);
        assert_eq!(whole_slices(&[3], 30, 100), [0; 0]);
    }
}
