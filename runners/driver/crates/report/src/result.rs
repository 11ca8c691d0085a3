//! The result of one test.

use std::borrow::Cow;
use std::time::Duration;

use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flags;
use crate::intervals::Intervals;
use crate::prefill::Prefill;
use crate::recovery::Recovery;
use crate::search::Search;
use crate::steps::StepResult;
use crate::usage::{ClientCpu, ServerCpu, ServerEvents, ServerUsage, Slices};
use crate::warmup::{NO_STEADY_STATE, WarmUp};
use engine::client_log::ClientLog;
use engine::histogram::{Gain, Histogram};
use engine::job::{Job, NamedCommand};
use engine::latency::LatencyUs;
use engine::node::Node;
use engine::outcome::{Cut, Outcome};
use engine::probe::Probe;
use engine::record::{CommandRecord, Record, Traffic, merge_gains};
use engine::schedule::Arrivals;
use engine::stage::depth_below_pipeline;
use engine::total::{Total, grown};
use machine::clock;
use modes::findings::Findings;
use text::units::{per, round, seconds};

#[derive(Debug, Serialize, Deserialize)]
pub struct TestResult {
    pub name: String,
    /// The phase as a workload file would say it.
    pub workload: Value,
    /// That of the phase.
    pub prefill: Option<Prefill>,
    pub mode: Cow<'static, str>,
    pub warmup: WarmUp,
    pub window_began_ns: u64,
    /// The same moment in the calendar.
    pub window_began_at: Timestamp,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_events: Option<ServerEvents>,
    pub slices: Slices,
    /// Of each node of a cluster, or of each of several servers; left out of one server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerResult>,
    /// Of the parts of a window over which the rate changed; left out of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepResult>,
    /// How the load went on when connections were lost; none when that would have ended it.
    pub recovery: Option<Recovery>,
    pub flags: Vec<Cow<'static, str>>,
    #[serde(flatten, skip_deserializing)]
    pub findings: Findings,
    /// The most units that a connection could have in flight, if its share of the requests was less than the pipeline.
    #[serde(skip)]
    pub depth: Option<u64>,
    /// What `latency_us` and `latency_hdr_v2` tell of, for the outputs that are no documents.
    #[serde(skip)]
    pub latency: Histogram,
    #[serde(skip)]
    pub intervals: Intervals,
    /// Elements of the replies that were nulls.
    #[serde(skip)]
    pub null_elements: u64,
    #[serde(skip)]
    pub traffic: Traffic,
    /// When the connections of each thread were open, ns after the window's begin.
    #[serde(skip)]
    pub opened_ns: Vec<Vec<u64>>,
    /// What each connection of each thread counted, where that was asked for.
    #[serde(skip)]
    pub clients: Vec<Vec<ClientLog>>,
    /// Why the window ended before its time.
    #[serde(skip)]
    pub cut: Option<Cut>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Errors {
    pub count: u64,
    pub first: Option<String>,
}

/// What only an open loop has.
#[derive(Debug, Serialize, Deserialize)]
pub struct Open {
    pub asked_rps: f64,
    pub arrivals: Cow<'static, str>,
    pub slip_us: SlipUs,
    pub slip_hdr_v2: String,
    pub unsent: u64,
    pub spun_ns: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SlipUs {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CommandResult {
    pub name: String,
    pub requests: u64,
    pub latency_us: LatencyUs,
    pub latency_hdr_v2: String,
    /// What `latency_us` and `latency_hdr_v2` tell of, and what the intervals added to it.
    #[serde(skip)]
    pub latency: Histogram,
    #[serde(skip)]
    pub intervals: Vec<Gain>,
}

/// What one of several servers had of the load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerResult {
    pub address: String,
    pub connections: usize,
    /// How many of the keys belong to it, if they are spread by ketama.
    pub keys: Option<u64>,
    /// Replies in the window.
    pub requests: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ProbeResult {
    pub clients: usize,
    pub asked_rps: f64,
    pub requests: u64,
    pub latency_us: LatencyUs,
    pub latency_hdr_v2: String,
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
            mode: mode.into(),
            warmup: WarmUp::fixed(Duration::ZERO),
            window_began_ns: outcome.span.counts_from,
            window_began_at: calendar_time(outcome.span.counts_from),
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
            commands: job.named_commands.iter().zip(&total.commands).map(CommandResult::of).collect(),
            probe: job.probe.zip(outcome.probe.as_ref()).map(ProbeResult::of),
            search: None,
            client_cpu: ClientCpu::of(&total),
            server_cpu: job
                .server_pid
                .filter(|_| !total.server_ns.is_empty())
                .map(|pid| ServerCpu::of(pid, &total.server_ns, requests)),
            server: total.server_usage.map(|usage| ServerUsage::of(usage, grown(&total.server_ns))),
            server_events: job.counters.as_deref().map(|counters| ServerEvents::of(counters, &total.counted)),
            flags: flags::of(&total, job, outcome),
            slices: Slices::of(&total, job),
            servers: servers(job, &total),
            steps: Vec::new(),
            recovery: job
                .recovery
                .zip(total.losses.as_ref())
                .map(|(_, losses)| Recovery::of(losses, outcome.span.counts_from)),
            intervals: intervals(job, outcome),
            null_elements: total.inside.null_elements,
            traffic: total.traffic.clone(),
            opened_ns: opened_ns(outcome),
            clients: outcome.records.iter().map(|record| record.clients.clone()).collect(),
            errors: Errors { count: total.inside.errors, first: total.inside.first_error },
            latency: total.latency,
            findings: Findings::default(),
            cut: outcome.cut.clone(),
            depth: outcome
                .span
                .requests
                .and_then(|all| depth_below_pipeline(job.pipeline, all, job.clients, job.script.unit())),
        }
    }

    /// The same after `warmup`.
    pub fn after(mut self, warmup: WarmUp) -> TestResult {
        self.flags.extend((warmup.steady == Some(false)).then_some(NO_STEADY_STATE.into()));
        TestResult { warmup, ..self }
    }
}

/// Keys that were there and keys that were not, as far as replies tell.
fn hits_and_misses(job: &Job, total: &Total) -> (u64, u64) {
    let inside = &total.inside;
    match job.named_commands.as_slice() {
        [only] if only.reads => (inside.replies - inside.nulls - inside.errors, inside.nulls),
        several if several.iter().any(|command| command.reads) => {
            let counted = several.iter().zip(&total.commands).filter(|(command, _)| command.reads);
            let requests: u64 = counted.map(|(_, record)| record.inside).sum();
            (requests.saturating_sub(inside.nulls + inside.errors), inside.nulls)
        }
        _ => (inside.hits, inside.misses),
    }
}

/// What each node of `job` had of the load.
fn servers(job: &Job, total: &Total) -> Vec<ServerResult> {
    let nodes = job.nodes.iter().zip(&total.nodes).enumerate();
    let server = |(at, (node, requests)): (usize, (&Node, &u64))| ServerResult {
        address: node.target.address.to_string(),
        connections: job.own_clients.clone().filter(|index| index % job.nodes.len() == at).count(),
        keys: node.share.as_ref().map(|share| share.numbers.len() as u64),
        requests: *requests,
    };
    nodes.map(server).collect()
}

/// The time in the calendar at `moment`, monotonic ns, to the microsecond.
fn calendar_time(moment: u64) -> Timestamp {
    let time = Timestamp::try_from(clock::calendar_time(moment)).unwrap_or_default();
    time.round(Unit::Microsecond).unwrap_or(time)
}

/// When connections were open, those of before the window at its begin.
fn opened_ns(outcome: &Outcome) -> Vec<Vec<u64>> {
    let since_begin = |at: &u64| at.saturating_sub(outcome.span.counts_from);
    outcome.records.iter().map(|record| record.opened.iter().map(since_begin).collect()).collect()
}

/// The intervals of all threads added up.
fn intervals(job: &Job, outcome: &Outcome) -> Intervals {
    let mut gains: Vec<Gain> = Vec::new();
    outcome.records.iter().for_each(|record| merge_gains(&mut gains, &record.intervals));
    Intervals {
        begun_at: outcome.span.counts_from,
        width_ns: job.slice_ns * job.interval_slices.unwrap_or(0) as u64,
        ended_at: outcome.records.iter().map(|record| record.ended_at).max().unwrap_or(0),
        gains,
    }
}

impl Open {
    fn of(total: &Total, arrivals: Arrivals) -> Open {
        Open {
            asked_rps: round(arrivals.ramp.map_or(arrivals.rate, |ramp| ramp.mean()), 3),
            arrivals: arrivals.process.name().into(),
            slip_us: SlipUs::of(&total.slip),
            slip_hdr_v2: total.slip.to_hdr_base64(),
            unsent: total.unsent,
            spun_ns: total.spun_ns,
        }
    }
}

impl SlipUs {
    pub fn of(slip: &Histogram) -> SlipUs {
        let us = |ns: u64| round(ns as f64 / 1000.0, 3);
        SlipUs { p50: us(slip.quantile(0.5)), p99: us(slip.quantile(0.99)), max: us(slip.max()) }
    }

    /// How late each request was, as exported to `hdr_base64`. Errors say what is wrong.
    pub fn lateness(&self, hdr_base64: &str) -> Result<Histogram, String> {
        Histogram::of_hdr_base64(hdr_base64, 0, (self.max * 1000.0).round() as u64, 0)
    }
}

impl CommandResult {
    fn of((command, record): (&NamedCommand, &CommandRecord)) -> CommandResult {
        CommandResult {
            name: command.name.clone(),
            requests: record.inside,
            latency_us: LatencyUs::of(&record.latency),
            latency_hdr_v2: record.latency.to_hdr_base64(),
            latency: record.latency.clone(),
            intervals: record.intervals.clone(),
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
