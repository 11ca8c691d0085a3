//! What all phases of a run share.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use engine::cluster::{self, SlotOwners};
use engine::job::Job;
use engine::ketama::Continuum;
use engine::node::Node;
use engine::progress::{Progress, Watcher};
use engine::scoreboard::{Scoreboard, Scoreboards};
use engine::spread::{self, Share};
use generator::keys::{Distribution, KeyOrder};
use generator::values::ValuePool;
use machine::clock;
use machine::counters::Counters;
use network::memcached;
use network::target::Address;
use report::progress_line::ProgressLine;
use text::failure::Failure;
use workload::filling::Filling;
use workload::memcached::suite::Needs;
use workload::phase::Phase;
use workload::plan::Plan;
use workload::protocol_name::ProtocolName;
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
    /// How many counters of memcached are stored, which tests count on and never take away.
    stored_counters: Cell<u64>,
    /// The keys of several servers.
    spread_keys: RefCell<SpreadKeys>,
    /// Sees the progress of loads, besides the terminal.
    watcher: RefCell<Option<Watcher<'a>>>,
    /// Where loads publish their progress for views, if there are any.
    scoreboards: Option<Arc<Scoreboards>>,
}

impl<'a> Session<'a> {
    /// What all phases of `plan` share.
    pub fn new(plan: &'a Plan) -> Result<Session<'a>, Failure> {
        let largest = plan.phases.iter().map(|phase| phase.values.largest()).max().unwrap_or(0);
        let counted = plan.server_pid.filter(|_| !plan.server_events.is_empty());
        let nodes = nodes(plan)?;
        if plan.protocol == ProtocolName::Memcached {
            nodes.iter().try_for_each(|node| memcached::require_logins(&node.target))?;
        }
        let session = Session {
            plan,
            nodes,
            values: ValuePool::new(plan.seed, largest),
            keyed: plan.phases.iter().any(|phase| phase.verify > 0.0),
            counters: counted.map(|pid| Arc::new(Counters::of(pid, &plan.server_events))),
            filled: RefCell::default(),
            stored_counters: Cell::default(),
            spread_keys: RefCell::default(),
            watcher: RefCell::default(),
            scoreboards: None,
        };
        session.check_shares().map(|()| session)
    }

    /// The same, with a `watcher` that sees the progress of its loads.
    pub fn watched_by(self, watcher: Watcher<'a>) -> Session<'a> {
        self.watcher.replace(Some(watcher));
        self
    }

    /// The same, with loads that publish their progress for views.
    pub fn seen_at(self, scoreboards: Option<Arc<Scoreboards>>) -> Session<'a> {
        Session { scoreboards, ..self }
    }

    /// The line that shows the progress of `phase`, unless a screen does.
    pub fn line(&self, phase: &Phase) -> ProgressLine {
        ProgressLine::new(&phase.name).hidden(self.plan.live)
    }

    /// Where the progress of `job` can be seen, if anybody looks.
    fn scoreboard(&self, job: &Job) -> Option<Arc<Scoreboard>> {
        let is_several = job.script.commands.len() > 1;
        let named = job.named_commands.iter().filter(|_| is_several).map(|command| command.name.clone());
        let scoreboards = self.scoreboards.as_ref()?;
        let scoreboard = Arc::new(Scoreboard::new(&job.name, named.collect(), job.threads));
        scoreboards.add(scoreboard.clone());
        Some(scoreboard)
    }

    /// Show `progress` on `line` and to the watcher.
    pub fn watch(&self, line: &mut ProgressLine, progress: Progress) {
        line.update(progress);
        if let Some(watcher) = self.watcher.borrow_mut().as_mut() {
            watcher(progress);
        }
    }
}

/// By prefix and number of keys: the key numbers that belong to each server.
type SpreadKeys = BTreeMap<(Vec<u8>, u64), Vec<Arc<[u32]>>>;

/// The servers that share the load.
fn nodes(plan: &Plan) -> Result<Vec<Node>, Failure> {
    match plan.cluster {
        true => cluster::masters(&plan.target),
        false => Ok(plan.servers().cloned().map(Node::of).collect()),
    }
}

impl Session<'_> {
    /// What stores the keys that `needs` names on each server, if it names some.
    pub fn fillings_memcached(&self, phase: &Phase, needs: Needs) -> Vec<Filling> {
        let keys = needs.numbers(phase.length.requests(), phase.keys.count);
        let (traffic, places) = (self.traffic(phase), phase.places(false));
        let head = needs.filler().and_then(|test| test.key_name(&places).head());
        let filling = |node: Node| {
            let keys = node.share.as_ref().map_or(keys, |share| share.numbers.len() as u64);
            let job = Job { nodes: vec![node], ..self.job(phase, &traffic) };
            Filling::of_memcached(job, needs, keys, &places).filter(|_| keys > 0)
        };
        self.spread(self.nodes.clone(), head, keys, Distribution::Parts)
            .into_iter()
            .filter_map(filling)
            .collect()
    }

    /// The `nodes`, each with its share of so many `keys` that begin with `head`, if there are several; without keys as they
    /// are.
    pub fn spread(
        &self,
        nodes: Vec<Node>,
        head: Option<Vec<u8>>,
        keys: u64,
        order: Distribution,
    ) -> Vec<Node> {
        let Some(head) = head.filter(|_| self.plan.spreads_keys()) else { return nodes };
        let mut spread_keys = self.spread_keys.borrow_mut();
        let numbers = spread_keys.entry((head.clone(), keys)).or_insert_with(|| {
            // The plan has refused more keys than that.
            let keys = u32::try_from(keys).unwrap_or(u32::MAX);
            if self.plan.cluster {
                let owners = SlotOwners::of(&nodes);
                return spread::numbers(nodes.len(), &head, keys, |key| owners.node(key));
            }
            let addresses: Vec<Address> = nodes.iter().map(|node| node.target.address.clone()).collect();
            let continuum = Continuum::new(&addresses);
            spread::numbers(nodes.len(), &head, keys, |key| continuum.server(key))
        });
        let shared = |(node, numbers): (Node, &Arc<[u32]>)| {
            let order = KeyOrder::of(order, (numbers.len() as u64).max(1));
            Node { share: Some(Share { numbers: numbers.clone(), order }), ..node }
        };
        nodes.into_iter().zip(numbers.iter()).map(shared).collect()
    }

    /// The servers with their shares of the keys that `phase` asks for.
    fn nodes_of(&self, phase: &Phase) -> Vec<Node> {
        let head = phase.workload.key_head(&phase.places(false)).ok().flatten();
        let nodes = self.nodes.iter().map(|node| node.greeted(&phase.greeting())).collect();
        self.spread(nodes, head, phase.keys.count, phase.keys.distribution)
    }

    /// A failure when one of several servers has none of the keys of a phase, or no connection to it.
    fn check_shares(&self) -> Result<(), Failure> {
        for phase in self.plan.phases.iter().filter(|_| self.plan.spreads_keys()) {
            let servers = self.nodes.len();
            if self.plan.own_clients(phase.clients).len() < servers {
                return Err(Failure::usage(
                    format!("there are fewer connections than the {servers} servers"),
                    "raise -c",
                ));
            }
            let has_none = |node: &Node| node.share.as_ref().is_some_and(|share| share.numbers.is_empty());
            if let Some(node) = self.nodes_of(phase).iter().find(|node| has_none(node)) {
                let keys = phase.keys.count;
                return Err(Failure::usage(
                    format!("none of the {keys} keys of {} belongs to {}", phase.name, node.target.address),
                    "raise -r",
                ));
            }
        }
        Ok(())
    }

    /// What stores the keys without which the tests of `phase` have nothing to do, unless an earlier phase or another machine does.
    pub fn needed(&self, phase: &Phase) -> Vec<Filling> {
        if !self.plan.fills() {
            return Vec::new();
        }
        let is_missing = |needs: &Needs| {
            let keys = phase.keys.count;
            let stored = self.stored_counters.get();
            *needs != Needs::Counters || self.stored_counters.replace(stored.max(keys)) < keys
        };
        let missing = phase.workload.needs().into_iter().filter(is_missing);
        missing.flat_map(|needs| self.fillings_memcached(phase, needs)).collect()
    }

    /// What `phase` sends, once the server holds the keys that it needs.
    pub fn prepare(&self, phase: &Phase) -> Result<(Traffic, Job), Failure> {
        self.needed(phase).iter().try_for_each(Filling::run)?;
        Ok(self.load(phase))
    }

    /// What `phase` sends to a server that holds the keys that it needs.
    pub fn load(&self, phase: &Phase) -> (Traffic, Job) {
        let traffic = self.traffic(phase);
        let job = self.job(phase, &traffic);
        let scoreboard = self.scoreboard(&job);
        (traffic, Job { scoreboard, ..job })
    }

    pub fn traffic(&self, phase: &Phase) -> Traffic {
        let tags = self.plan.cluster && !self.plan.spreads_keys();
        phase.workload.traffic(&phase.places(tags), self.plan.seed)
    }

    pub fn job(&self, phase: &Phase, traffic: &Traffic) -> Job {
        Job {
            name: phase.name.clone(),
            nodes: self.nodes_of(phase),
            script: traffic.script().clone().into(),
            named_commands: phase.workload.named_commands(),
            clients: phase.clients,
            own_clients: self.plan.own_clients(phase.clients),
            threads: phase.threads,
            pipeline: phase.pipeline,
            window: phase.window,
            rate: None,
            keepalive: true,
            stairs: phase.stairs,
            jitter: phase.jitter,
            alike: phase.alike,
            by_client: phase.by_client,
            reconnect_after: phase.reconnect_after,
            keyspace: phase.keys.count,
            key_order: KeyOrder::of(phase.keys.distribution, phase.keys.count),
            command_key_orders: phase.command_key_orders(),
            values: self.values.with(&phase.values, self.keyed).rising(phase.values_rise, phase.keys.count),
            items: phase.items.clone(),
            table: None,
            seed: phase.seed.unwrap_or(self.plan.seed),
            probe: phase.probe,
            cpus: self.plan.cpus.clone(),
            server_pid: self.plan.server_pid,
            counters: self.counters.clone(),
            slice_ns: self.plan.slice_ms * 1_000_000,
            interval_slices: phase.step_slices(self.plan.slice_ms).or(self.plan.interval_slices()),
            allow_errors: self.plan.allow_errors,
            verify: phase.verification(),
            recovery: self.plan.recovery,
            begins_at: self.plan.start_at.map(clock::moment_of),
            scoreboard: None,
        }
    }
}
