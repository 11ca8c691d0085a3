//! Keys that are set before the load, and counted.

use crate::session::Session;
use engine::cluster;
use engine::job::{Job, Window};
use engine::node::Node;
use engine::server_process::read_server_memory;
use generator::keys::{Distribution, KeyOrder};
use machine::clock;
use network::memcached;
use report::prefill::{Growth, Prefill};
use text::failure::Failure;
use text::units;
use workload::filling::{Filling, MOST_CLIENTS};
use workload::memcached::suite::Needs;
use workload::phase::Phase;
use workload::plan::Plan;
use workload::protocol_name::ProtocolName;
use workload::workload::Workload;

/// A prefill batch is at most this deep ...
const PREFILL_PIPELINE: usize = 64;
/// ... and about this long.
const PREFILL_BATCH_BYTES: usize = 64 * 1024;

/// Refuse to prefill a server that holds keys, before anything is sent: they may still be needed.
pub fn require_empty_server(plan: &Plan) -> Result<(), Failure> {
    if !needs_empty_server(plan) {
        return Ok(());
    }
    match count_keys(plan, 0)? {
        0 => Ok(()),
        held => Err(Failure::run(
            format!(
                "the server holds {held} keys{} already, which a prefill may overwrite",
                database_name(plan)
            ),
            "give an empty server or another --dbnum, or --prefill=force to overwrite them",
        )),
    }
}

/// Whether a prefill of `plan` must not find keys.
pub fn needs_empty_server(plan: &Plan) -> bool {
    plan.fills() && !plan.overwrites && plan.phases.iter().any(|phase| phase.prefill)
}

/// The number of keys in the server, of which `expected` would be right.
pub fn count_keys(plan: &Plan, expected: u64) -> Result<u64, Failure> {
    match plan.protocol {
        ProtocolName::Resp if plan.cluster => {
            cluster::masters(&plan.target)?.iter().map(|master| master.target.count_keys(plan.database)).sum()
        }
        ProtocolName::Resp => plan.target.count_keys(plan.database),
        ProtocolName::Memcached => memcached::count_living(plan.servers(), expected),
    }
}

/// Where keys are counted, for a message.
fn database_name(plan: &Plan) -> String {
    match plan.protocol {
        ProtocolName::Resp => format!(" in db{}", plan.database),
        ProtocolName::Memcached => String::new(),
    }
}

impl Session<'_> {
    /// Set every key of the phase once, then ask the server how many it holds.
    pub fn prefill(&self, phase: &Phase) -> Result<Prefill, Failure> {
        let before_bytes = self.server_memory()?;
        let began = clock::now();
        self.fillings(phase).iter().try_for_each(Filling::run)?;
        self.prefilled(phase, before_bytes, clock::now() - began)
    }

    /// What sets every key of the phase once.
    pub fn fillings(&self, phase: &Phase) -> Vec<Filling> {
        match self.plan.protocol {
            ProtocolName::Resp => phase
                .fillings()
                .into_values()
                .flat_map(|workload| self.fillings_resp(phase, workload))
                .collect(),
            ProtocolName::Memcached => self.fillings_memcached(phase, Needs::Keys),
        }
    }

    /// A prefill that took `ns`: the keys and the memory that the server holds now, of which it held `before_bytes`.
    pub fn prefilled(&self, phase: &Phase, before_bytes: Option<u64>, ns: u64) -> Result<Prefill, Failure> {
        let seconds = units::round(units::seconds(ns), 6);
        let keys = self.count_filled(phase);
        let keys_in_server = count_keys(self.plan, keys)?;
        if keys_in_server < keys || keys_in_server > keys && !self.plan.overwrites {
            let limit = match self.plan.protocol {
                ProtocolName::Resp => "maxmemory",
                ProtocolName::Memcached => "-m",
            };
            return Err(Failure::run(
                format!(
                    "the server holds {keys_in_server} keys{} after a prefill of {keys}",
                    database_name(self.plan)
                ),
                format!("start with an empty server, and look for eviction ({limit})"),
            ));
        }
        let memory = before_bytes.zip(self.server_memory()?);
        let server_memory = memory.map(|(before, after)| Growth::of(before, after, keys));
        Ok(Prefill { keys, seconds, keys_in_server, server_memory })
    }

    /// The bytes that the server holds, if its process is known.
    pub fn server_memory(&self) -> Result<Option<u64>, Failure> {
        self.plan.server_pid.map(read_server_memory).transpose()
    }

    /// How many keys all prefills so far have set.
    fn count_filled(&self, phase: &Phase) -> u64 {
        let mut filled = self.filled.borrow_mut();
        for key in phase.fillings().into_keys() {
            let count = filled.entry(key).or_default();
            *count = phase.keys.count.max(*count);
        }
        filled.values().sum()
    }

    /// What sets every key of the phase once by the requests of `workload`: a filling for each server that has keys of its own.
    fn fillings_resp(&self, phase: &Phase, workload: Workload) -> Vec<Filling> {
        // The plan has refused keys that cannot be spread.
        let head = workload.key_head(&phase.places(false)).ok().flatten();
        let set = Phase { name: workload.text(), workload, ..phase.clone() };
        let nodes = self.nodes.iter().map(|node| node.greeted(&phase.greeting())).collect();
        let spread = self.spread(nodes, head, phase.keys.count, Distribution::Parts);
        if !self.plan.spreads_keys() {
            return vec![self.filling(&set, spread, phase.keys.count)];
        }
        let keys_of = |node: &Node| node.share.as_ref().map_or(0, |share| share.numbers.len() as u64);
        let filling =
            |node: Node| (keys_of(&node) > 0).then(|| self.filling(&set, vec![node.clone()], keys_of(&node)));
        spread.into_iter().filter_map(filling).collect()
    }

    /// What sets the `keys` of these `nodes` once.
    fn filling(&self, set: &Phase, nodes: Vec<Node>, keys: u64) -> Filling {
        let clients = set.clients.min(MOST_CLIENTS).min(usize::try_from(keys).unwrap_or(usize::MAX));
        let traffic = self.traffic(set);
        let job = Job {
            nodes,
            clients,
            own_clients: 0..clients,
            begins_at: None,
            threads: set.threads.min(clients),
            pipeline: (PREFILL_BATCH_BYTES / set.values.largest().max(1)).clamp(1, PREFILL_PIPELINE),
            key_order: KeyOrder::Parts,
            probe: None,
            verify: None,
            window: Window::Batch,
            allow_errors: false,
            recovery: None,
            ..self.job(set, &traffic)
        };
        Filling { traffic, job, requests: keys }
    }
}
