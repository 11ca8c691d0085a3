//! What all phases of a run share.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use engine::job::Job;
use engine::node::Node;
use generator::keys::KeyOrder;
use generator::values::ValuePool;
use machine::counters::Counters;
use text::failure::Failure;
use workload::memcached::load;
use workload::memcached::suite::Needs;
use workload::phase::{Length, Phase};
use workload::plan::Plan;
use workload::traffic::Traffic;

/// What all phases of a run share.
pub struct Session<'a> {
    pub plan: &'a Plan,
    pub nodes: Vec<Node>,
    pub values: ValuePool,
    /// Whether values belong to their keys, as some phase verifies them.
    pub keyed: bool,
    pub counters: Option<Arc<Result<Counters, String>>>,
    /// For each kind of key, how many were set by prefills.
    pub filled: RefCell<BTreeMap<Vec<u8>, u64>>,
}

impl Session<'_> {
    pub fn fill_memcached(&self, phase: &Phase, needs: Needs) -> Result<(), Failure> {
        let keys = match (needs, phase.length) {
            (Needs::KeyPerRequest, Length::Requests(requests)) => requests,
            _ => phase.keys.count,
        };
        load::fill(self.job(phase, &self.traffic(phase)), needs, keys, &phase.places(false))
    }

    /// What `phase` sends, once the server holds the keys that it needs.
    pub fn prepare(&self, phase: &Phase) -> Result<(Traffic, Job), Failure> {
        for needs in phase.workload.needs() {
            self.fill_memcached(phase, needs)?;
        }
        let traffic = self.traffic(phase);
        let job = self.job(phase, &traffic);
        Ok((traffic, job))
    }

    pub fn traffic(&self, phase: &Phase) -> Traffic {
        phase.workload.traffic(&phase.places(self.plan.cluster), self.plan.seed)
    }

    pub fn job(&self, phase: &Phase, traffic: &Traffic) -> Job {
        Job {
            name: phase.name.clone(),
            nodes: self.nodes.iter().map(|node| node.greeted(&phase.greeting())).collect(),
            script: traffic.script().clone().into(),
            named_commands: phase.workload.named_commands(),
            clients: phase.clients,
            threads: phase.threads,
            pipeline: phase.pipeline,
            window: phase.window,
            rate: None,
            keepalive: true,
            keyspace: phase.keys.count,
            key_order: KeyOrder::of(phase.keys.distribution, phase.keys.count),
            values: self.values.with(&phase.values, self.keyed),
            seed: self.plan.seed,
            probe: phase.probe,
            cpus: self.plan.cpus.clone(),
            server_pid: self.plan.server_pid,
            counters: self.counters.clone(),
            slice_ns: self.plan.slice_ms * 1_000_000,
            interval_slices: self.plan.interval_slices(),
            allow_errors: self.plan.allow_errors,
            verify: phase.verification(),
        }
    }
}
