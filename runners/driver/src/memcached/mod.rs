//! Load on memcached: its tests, the keys that they need, and the dialogue beside the load.

pub mod dialogue;
pub mod suite;

use crate::crew::{self, Outcome, Watcher};
use crate::failure::Failure;
use crate::job::{Job, Window};
use crate::keys::KeyOrder;
use crate::proto::memcached::{Answer, Memcached};
use crate::stage::Stage;
use crate::template::{Command, Script, Value};
use suite::{Needs, Test};

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
    /// One test, or a mix of several with weights.
    pub fn new(weighted: &[(&Test, u64)], value: &Value, seed: u64) -> Load {
        let commands = weighted.iter().map(|(test, weight)| (*weight, test.command(value)));
        let answers = weighted.iter().map(|(test, _)| test.answer(value)).collect();
        match weighted {
            [(test, _)] => Load::of(test.command(value), answers),
            _ => Load::with(Script::mix(commands.collect(), seed), answers),
        }
    }

    fn of(command: Command, answers: Vec<Answer>) -> Load {
        Load::with(Script::of(command), answers)
    }

    fn with(script: Script, answers: Vec<Answer>) -> Load {
        Load { proto: Memcached::new(answers, &script), script }
    }

    pub fn run(&self, job: &Job, stages: &[Stage], watcher: Watcher) -> Result<Outcome, Failure> {
        crew::run(&self.proto, job, stages, watcher)
    }
}

/// Store each of the first `keys` keys that `needs` names once, with the connections and values of `job`.
pub fn fill(job: Job, needs: Needs, keys: u64, value: &Value) -> Result<(), Failure> {
    let Some(test) = needs.filler() else { return Ok(()) };
    let load = Load::new(&[(test, 1)], value, job.seed);
    let clients = job.clients.min(usize::try_from(keys).unwrap_or(usize::MAX));
    let request_bytes = load.script.batch_bytes(1).max(1);
    let job = Job {
        name: test.name.to_owned(),
        clients,
        threads: job.threads.min(clients),
        pipeline: (FILL_BATCH_BYTES / request_bytes).clamp(1, FILL_PIPELINE),
        keyspace: keys,
        key_order: KeyOrder::EachOnce,
        window: Window::Batch,
        rate: None,
        keepalive: true,
        allow_errors: false,
        script: load.script.clone().into(),
        ..job
    };
    load.run(&job, &[Stage::Exactly { requests: keys }], &mut |_| ()).map(|_| ())
}
