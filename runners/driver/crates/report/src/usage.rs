//! What client and server used in the window of a test.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use engine::job::Job;
use engine::total::{Total, grown};
use machine::counters::{Counted, Counters};
use machine::process::ProcessUsage;
use text::units::{per, round};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientCpu {
    pub user_ns: u64,
    pub system_ns: u64,
    pub ns_per_request: f64,
    pub busiest_thread: f64,
    pub run_delay_ns: Option<u64>,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerCpu {
    pub pid: u32,
    pub ns: u64,
    pub ns_per_request: f64,
}

/// What the server did in the window. The split of its CPU time is that of the clock ticks; null when no tick sampled it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerUsage {
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

/// What the kernel counted of the server in the window, or why it did not.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ServerEvents {
    Counted { scope: Cow<'static, str>, counts: BTreeMap<Cow<'static, str>, u64> },
    Unavailable { unavailable: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Slices {
    pub width_ms: u64,
    pub requests: Vec<u64>,
    pub server_cpu_ns: Vec<u64>,
    pub client_cpu_ns: Vec<u64>,
}

impl ClientCpu {
    pub fn of(total: &Total) -> ClientCpu {
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

impl ServerCpu {
    pub fn of(pid: u32, readings: &[u64], requests: u64) -> ServerCpu {
        let ns = grown(readings);
        ServerCpu { pid, ns, ns_per_request: round(per(ns as f64, requests as f64), 2) }
    }
}

impl ServerUsage {
    /// `cpu_ns` is what the CPU clock of the server counted in the same window.
    pub fn of(usage: ProcessUsage, cpu_ns: u64) -> ServerUsage {
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
    pub fn of(counters: &Result<Counters, String>, counted: &Option<Vec<Counted>>) -> ServerEvents {
        match (counters, counted) {
            (Ok(counters), Some(counted)) => ServerEvents::Counted {
                scope: counters.scope.into(),
                counts: counted.iter().map(|one| (one.name.into(), one.count)).collect(),
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
    pub fn of(total: &Total, job: &Job) -> Slices {
        Slices {
            width_ms: job.slice_ns / 1_000_000,
            requests: total.slices.clone(),
            server_cpu_ns: total.server_ns_per_slice(),
            client_cpu_ns: total.client_ns.clone(),
        }
    }
}
