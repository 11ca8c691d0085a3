//! Load on memcached: a script with the protocol that knows its answers.

use crate::memcached::suite::Test;
use crate::order::Order;
use engine::job::Job;
use engine::outcome::Outcome;
use engine::progress::Watcher;
use engine::stage::Stage;
use engine::workers;
use protocol::memcached::Memcached;
use protocol::script::Script;
use protocol::template::Placeholders;
use text::failure::Failure;

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
