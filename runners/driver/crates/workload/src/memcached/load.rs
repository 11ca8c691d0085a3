//! Load on memcached: a script with the protocol that knows its answers.

use crate::filling::Filling;
use crate::filling::MOST_CLIENTS;
use crate::memcached::suite::{Needs, Test};
use crate::order::Order;
use crate::traffic::Traffic;
use engine::job::{Job, Window};
use engine::outcome::Outcome;
use engine::progress::Watcher;
use engine::stage::Stage;
use engine::workers;
use generator::keys::KeyOrder;
use protocol::memcached::Memcached;
use protocol::script::Script;
use protocol::template::Placeholders;
use text::failure::Failure;

/// A batch of the filling is at most this deep ...
const FILL_PIPELINE: usize = 64;
/// ... and about this long.
const FILL_BATCH_BYTES: usize = 64 * 1024;

/// A script with the protocol that knows its answers.
pub struct Load {
    pub script: Script,
    pub proto: Memcached,
}

impl Load {
    /// One test.
    pub fn new(test: &Test, places: &Placeholders, seed: u64) -> Load {
        Load::ordered(&[(test, 1)], Order::Mix, places, seed)
    }

    /// Tests with their counts.
    pub fn ordered(counted: &[(&Test, u64)], order: Order, places: &Placeholders, seed: u64) -> Load {
        let commands = counted.iter().map(|(test, count)| (*count, test.command(places)));
        let answers = counted.iter().map(|(test, _)| test.answer(places)).collect();
        let script = order.script(commands.collect(), seed);
        Load { proto: Memcached::new(answers, &script), script }
    }

    pub fn run(&self, job: &Job, stages: &[Stage], watcher: Watcher) -> Result<Outcome, Failure> {
        workers::run(&self.proto, job, stages, watcher)
    }
}

/// What stores each of the first `keys` keys that `needs` names, with the connections of `job`; none if it names none.
pub fn filling(job: Job, needs: Needs, keys: u64, places: &Placeholders) -> Option<Filling> {
    let test = needs.filler()?;
    let load = Load::new(test, places, job.seed);
    let clients = job.clients.min(MOST_CLIENTS).min(usize::try_from(keys).unwrap_or(usize::MAX));
    let request_bytes = load.script.batch_bytes(1).max(1);
    let job = Job {
        name: test.name.to_owned(),
        clients,
        threads: job.threads.min(clients),
        pipeline: (FILL_BATCH_BYTES / request_bytes).clamp(1, FILL_PIPELINE),
        keyspace: keys,
        key_order: KeyOrder::Parts,
        window: Window::Batch,
        rate: None,
        probe: None,
        verify: None,
        keepalive: true,
        allow_errors: false,
        script: load.script.clone().into(),
        named_commands: Vec::new(),
        ..job
    };
    Some(Filling { traffic: Traffic::Memcached(load), job, requests: keys })
}
