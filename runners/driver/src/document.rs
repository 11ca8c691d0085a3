//! The result as a document, schema `speedbench.v1`. `README.md` describes each field.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::counters::{Counted, Counters};
use crate::crew::Outcome;
use crate::environment::Environment;
use crate::flags;
use crate::hdr_log::Intervals;
use crate::histogram::{Gain, Histogram};
use crate::job::{Job, Spoken};
use crate::meter::{CommandRecord, Record};
use crate::modes::Findings;
use crate::plan::Probe;
use crate::proto::Tally;
use crate::schedule::Arrivals;
use crate::search::Search;
use crate::stage::depth_short_of;
use crate::sys::{ProcessUsage, Usage};
use crate::warmup::{NO_STEADY_STATE, WarmUp};

pub const SCHEMA: &str = "speedbench.v1";

#[derive(Debug, Serialize)]
pub struct Document {
    pub schema: &'static str,
    pub driver: Driver,
    pub target: TargetName,
    pub started_at: String,
    pub environment: Environment,
    /// The first one.
    pub prefill: Option<Prefill>,
    pub tests: Vec<TestResult>,
}

#[derive(Debug, Serialize)]
pub struct Driver {
    pub version: &'static str,
    pub digest: String,
    /// Of the phases and the protocol: what is compared has the same.
    pub workload_digest: String,
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

#[derive(Debug, Clone, Serialize)]
pub struct Prefill {
    pub keys: u64,
    pub seconds: f64,
    pub keys_in_server: u64,
    pub server_memory: Option<Growth>,
}

/// The bytes that the server held before and afterwards, and what that is per key.
#[derive(Debug, Clone, Serialize)]
pub struct Growth {
    pub before_bytes: u64,
    pub after_bytes: u64,
    pub bytes_per_key: f64,
}

#[derive(Debug, Serialize)]
pub struct TestResult {
    pub name: String,
    /// The phase as a workload file would say it.
    pub workload: Value,
    /// That of the phase.
    pub prefill: Option<Prefill>,
    pub mode: &'static str,
    pub warmup: WarmUp,
    pub window_began_ns: u64,
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
    pub service_us: Option<LatencyUs>,
    pub service_hdr_v2: Option<String>,
    pub open: Option<Open>,
    pub commands: Vec<CommandResult>,
    pub probe: Option<ProbeResult>,
    pub search: Option<Search>,
    pub client_cpu: ClientCpu,
    pub server_cpu: Option<ServerCpu>,
    pub server: Option<ServerUsage>,
    /// Left out unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_events: Option<ServerEvents>,
    pub slices: Slices,
    pub flags: Vec<&'static str>,
    #[serde(flatten)]
    pub findings: Findings,
    /// The most units that a connection could have in flight, if its share of the requests was less than the pipeline.
    #[serde(skip)]
    pub depth: Option<u64>,
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

/// What only an open loop has.
#[derive(Debug, Serialize)]
pub struct Open {
    pub asked_rps: f64,
    pub arrivals: &'static str,
    pub slip_us: SlipUs,
    pub unsent: u64,
    pub spun_ns: u64,
}

#[derive(Debug, Serialize)]
pub struct SlipUs {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

#[derive(Debug, Serialize)]
pub struct CommandResult {
    pub name: String,
    pub requests: u64,
    pub latency_us: LatencyUs,
    pub latency_hdr_v2: String,
}

#[derive(Debug, Serialize)]
pub struct ProbeResult {
    pub clients: usize,
    pub asked_rps: f64,
    pub requests: u64,
    pub latency_us: LatencyUs,
    pub latency_hdr_v2: String,
}

#[derive(Debug, Serialize)]
pub struct ClientCpu {
    pub user_ns: u64,
    pub system_ns: u64,
    pub ns_per_request: f64,
    pub busiest_thread: f64,
    pub run_delay_ns: Option<u64>,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

#[derive(Debug, Serialize)]
pub struct ServerCpu {
    pub pid: u32,
    pub ns: u64,
    pub ns_per_request: f64,
}

/// What the server did in the window. The split of its CPU time is that of the clock ticks; null when none met it.
#[derive(Debug, Serialize)]
pub struct ServerUsage {
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

/// What the kernel counted of the server in the window, or why it did not.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ServerEvents {
    Counted { scope: &'static str, counts: BTreeMap<&'static str, u64> },
    Unavailable { unavailable: String },
}

#[derive(Debug, Serialize)]
pub struct Slices {
    pub width_ms: u64,
    pub requests: Vec<u64>,
    pub server_cpu_ns: Vec<u64>,
    pub client_cpu_ns: Vec<u64>,
}

impl Document {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("the document has string keys only")
    }
}

impl TestResult {
    /// What the threads of `job` counted, as one result of a phase that is measured in `mode`.
    pub fn new(job: &Job, workload: Value, mode: &'static str, outcome: &Outcome) -> TestResult {
        let total = Total::of(outcome);
        let requests = total.inside.replies;
        let arrivals = outcome.span.arrivals;
        let (hits, misses) = hits_and_misses(job, &total);
        TestResult {
            name: job.name.clone(),
            workload,
            prefill: None,
            mode,
            warmup: WarmUp::fixed(Duration::ZERO),
            window_began_ns: outcome.span.counts_from,
            window_s: round(seconds(total.window_ns), 6),
            requests,
            unfinished: total.unfinished,
            throughput_rps: round(per(requests as f64, seconds(total.window_ns)), 1),
            hits,
            misses,
            pushes: total.inside.pushes,
            latency_us: LatencyUs::of(&total.latency),
            latency_hdr_v2: total.latency.to_hdr_base64(),
            service_us: arrivals.map(|_| LatencyUs::of(&total.service)),
            service_hdr_v2: arrivals.map(|_| total.service.to_hdr_base64()),
            open: arrivals.map(|arrivals| Open::of(&total, arrivals)),
            commands: job.spoken.iter().zip(&total.commands).map(CommandResult::of).collect(),
            probe: job.probe.zip(outcome.probe.as_ref()).map(ProbeResult::of),
            search: None,
            client_cpu: ClientCpu::of(&total),
            server_cpu: job.server_pid.map(|pid| ServerCpu::of(pid, &total.server_ns, requests)),
            server: total.server_usage.map(|usage| ServerUsage::of(usage, grown(&total.server_ns))),
            server_events: job.counters.as_deref().map(|counters| ServerEvents::of(counters, &total.counted)),
            flags: flags::of(&total, job, arrivals),
            slices: Slices::of(&total, job),
            intervals: intervals(job, outcome),
            errors: Errors { count: total.inside.errors, first: total.inside.first_error },
            latency: total.latency,
            findings: Findings::default(),
            depth: outcome
                .span
                .requests
                .and_then(|all| depth_short_of(job.pipeline, all, job.clients, job.script.unit())),
        }
    }

    /// The same after `warmup`.
    pub fn after(mut self, warmup: WarmUp) -> TestResult {
        self.flags.extend((warmup.steady == Some(false)).then_some(NO_STEADY_STATE));
        TestResult { warmup, ..self }
    }
}

/// Keys that were there and keys that were not, as far as replies tell.
fn hits_and_misses(job: &Job, total: &Total) -> (u64, u64) {
    let inside = &total.inside;
    match job.spoken.as_slice() {
        [only] if only.reads => (inside.replies - inside.nulls - inside.errors, inside.nulls),
        several if several.iter().any(|command| command.reads) => {
            let counted = several.iter().zip(&total.commands).filter(|(command, _)| command.reads);
            let asked: u64 = counted.map(|(_, record)| record.inside).sum();
            (asked.saturating_sub(inside.nulls + inside.errors), inside.nulls)
        }
        _ => (inside.hits, inside.misses),
    }
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

/// The records of all threads of the load added up.
#[derive(Default)]
pub struct Total {
    pub window_ns: u64,
    pub inside: Tally,
    unfinished: u64,
    pub unsent: u64,
    pub latency: Histogram,
    service: Histogram,
    pub slip: Histogram,
    commands: Vec<CommandRecord>,
    pub slices: Vec<u64>,
    server_ns: Vec<u64>,
    server_usage: Option<ProcessUsage>,
    counted: Option<Vec<Counted>>,
    client_ns: Vec<u64>,
    usage: Usage,
    spun_ns: u64,
    run_delay_ns: Option<u64>,
    pub busiest_thread: f64,
    /// The largest share of the window that a thread, that of the probe too, waited for a CPU.
    pub most_delayed: f64,
}

impl Total {
    pub fn of(outcome: &Outcome) -> Total {
        let records = &outcome.records;
        let last = records.iter().max_by_key(|record| record.closed_at);
        let ended_at = last.map_or(0, |record| record.closed_at).min(outcome.span.ends_at);
        let greatest = |share: fn(&Record) -> f64, records: &mut dyn Iterator<Item = &Record>| {
            records.map(share).fold(0.0, f64::max)
        };
        let mut total = Total {
            window_ns: ended_at.saturating_sub(outcome.span.counts_from),
            // Each thread reads the same clock; the one that ended last saw the whole window.
            server_ns: last.map_or(Vec::new(), |record| record.server_ns.clone()),
            server_usage: last.and_then(|record| record.server_usage),
            counted: last.and_then(|record| record.counted.clone()),
            busiest_thread: greatest(busy_share, &mut records.iter()),
            most_delayed: greatest(delayed_share, &mut records.iter().chain(&outcome.probe)),
            run_delay_ns: records.iter().map(|record| record.run_delay_ns).sum(),
            ..Total::default()
        };
        records.iter().for_each(|record| total.add(record));
        total
    }

    /// CPU time of the server in each slice; empty without a server pid.
    pub fn server_ns_per_slice(&self) -> Vec<u64> {
        differences(&self.server_ns)
    }

    fn add(&mut self, record: &Record) {
        self.inside.add(record.inside.clone());
        self.unfinished += record.unfinished;
        self.unsent += record.unsent;
        self.latency.merge(&record.latency);
        self.service.merge(&record.service);
        self.slip.merge(&record.slip);
        self.usage = self.usage.plus(record.usage);
        self.spun_ns += record.spun_ns;
        add_slices(&mut self.slices, &record.slices);
        add_slices(&mut self.client_ns, &differences(&record.client_ns));
        self.commands.resize_with(record.commands.len(), CommandRecord::default);
        for (sum, command) in self.commands.iter_mut().zip(&record.commands) {
            sum.inside += command.inside;
            sum.latency.merge(&command.latency);
        }
    }
}

/// The share of its core that a thread used in the window, 0 to 1, without what it spent awake and waiting.
fn busy_share(record: &Record) -> f64 {
    let busy_ns = record.usage.cpu_ns().saturating_sub(record.spun_ns);
    per(busy_ns as f64, (record.closed_at - record.opened_at) as f64)
}

/// The share of the window that a thread was ready and had no CPU, 0 to 1.
fn delayed_share(record: &Record) -> f64 {
    per(record.run_delay_ns.unwrap_or(0) as f64, (record.closed_at - record.opened_at) as f64)
}

/// What a clock went on between its readings.
fn differences(readings: &[u64]) -> Vec<u64> {
    readings.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// What a clock went on from its first reading to its last.
fn grown(readings: &[u64]) -> u64 {
    readings.last().unwrap_or(&0) - readings.first().unwrap_or(&0)
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

impl Growth {
    pub fn of(before_bytes: u64, after_bytes: u64, keys: u64) -> Growth {
        let bytes_per_key = round(per(after_bytes.saturating_sub(before_bytes) as f64, keys as f64), 2);
        Growth { before_bytes, after_bytes, bytes_per_key }
    }
}

impl ClientCpu {
    fn of(total: &Total) -> ClientCpu {
        let usage = total.usage;
        ClientCpu {
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            ns_per_request: round(per(usage.cpu_ns() as f64, total.inside.replies as f64), 2),
            busiest_thread: round(total.busiest_thread, 4),
            run_delay_ns: total.run_delay_ns,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
        }
    }
}

impl Open {
    fn of(total: &Total, arrivals: Arrivals) -> Open {
        let us = |quantile: f64| round(total.slip.quantile(quantile) as f64 / 1000.0, 3);
        Open {
            asked_rps: arrivals.rate,
            arrivals: arrivals.law.name(),
            slip_us: SlipUs { p50: us(0.5), p99: us(0.99), max: round(total.slip.max() as f64 / 1000.0, 3) },
            unsent: total.unsent,
            spun_ns: total.spun_ns,
        }
    }
}

impl CommandResult {
    fn of((spoken, record): (&Spoken, &CommandRecord)) -> CommandResult {
        CommandResult {
            name: spoken.name.clone(),
            requests: record.inside,
            latency_us: LatencyUs::of(&record.latency),
            latency_hdr_v2: record.latency.to_hdr_base64(),
        }
    }
}

impl ProbeResult {
    fn of((probe, record): (Probe, &Record)) -> ProbeResult {
        ProbeResult {
            clients: probe.clients,
            asked_rps: probe.rate,
            requests: record.inside.replies,
            latency_us: LatencyUs::of(&record.latency),
            latency_hdr_v2: record.latency.to_hdr_base64(),
        }
    }
}

impl ServerCpu {
    fn of(pid: u32, readings: &[u64], requests: u64) -> ServerCpu {
        let ns = grown(readings);
        ServerCpu { pid, ns, ns_per_request: round(per(ns as f64, requests as f64), 2) }
    }
}

impl ServerUsage {
    /// `cpu_ns` is what the CPU clock of the server counted in the same window.
    fn of(usage: ProcessUsage, cpu_ns: u64) -> ServerUsage {
        let user_share = usage.sampled_user_ns as f64 / usage.sampled_ns as f64;
        let user_ns = user_share.is_finite().then_some((cpu_ns as f64 * user_share).round() as u64);
        ServerUsage {
            user_ns,
            system_ns: user_ns.map(|user_ns| cpu_ns - user_ns),
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
        }
    }
}

impl ServerEvents {
    fn of(counters: &Result<Counters, String>, counted: &Option<Vec<Counted>>) -> ServerEvents {
        match (counters, counted) {
            (Ok(counters), Some(counted)) => ServerEvents::Counted {
                scope: counters.scope,
                counts: counted.iter().map(|one| (one.name, one.count)).collect(),
            },
            (Ok(_), None) => ServerEvents::Unavailable {
                unavailable: "not available here: others used the counters for a part of the window"
                    .to_owned(),
            },
            (Err(cause), _) => ServerEvents::Unavailable { unavailable: cause.clone() },
        }
    }
}

impl Slices {
    fn of(total: &Total, job: &Job) -> Slices {
        Slices {
            width_ms: job.slice_ns / 1_000_000,
            requests: total.slices.clone(),
            server_cpu_ns: total.server_ns_per_slice(),
            client_cpu_ns: total.client_ns.clone(),
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
