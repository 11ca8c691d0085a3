//! What a workload sends, in the protocol of its server.

use crate::memcached::load::Load;
use engine::connected::Connected;
use engine::job::Job;
use engine::outcome::{Outcome, StageSource};
use engine::progress::{Shared, Watcher};
use engine::stage::Stage;
use engine::verified::Verified;
use engine::worker::Worker;
use engine::workers;
use protocol::resp::Resp;
use protocol::script::Script;
use text::failure::Failure;

/// What a workload sends, in the protocol of its server.
pub enum Traffic {
    Resp(Script),
    Memcached(Load),
}

impl Traffic {
    pub fn script(&self) -> &Script {
        match self {
            Traffic::Resp(script) => script,
            Traffic::Memcached(load) => &load.script,
        }
    }

    pub fn run_from(&self, job: &Job, next_stage: StageSource, watcher: Watcher) -> Result<(), Failure> {
        match (self, &job.verify) {
            (Traffic::Resp(script), None) => workers::run_from(&Resp::of(script), job, next_stage, watcher),
            (Traffic::Resp(script), Some(verify)) => workers::run_from(
                &Verified { proto: Resp::of(script), job, verify },
                job,
                next_stage,
                watcher,
            ),
            (Traffic::Memcached(load), None) => workers::run_from(&load.proto, job, next_stage, watcher),
            (Traffic::Memcached(load), Some(verify)) => {
                let proto = load.proto.clone();
                workers::run_from(&Verified { proto, job, verify }, job, next_stage, watcher)
            }
        }
    }

    /// The connections of `job`, which has one thread: open, and driven by the caller.
    pub fn connect<'a>(&self, job: &'a Job, shared: &'a Shared) -> Result<Box<dyn Connected + 'a>, Failure> {
        Ok(match (self, &job.verify) {
            (Traffic::Resp(script), None) => Box::new(Worker::connect(&Resp::of(script), job, 0, shared)?),
            (Traffic::Resp(script), Some(verify)) => {
                let proto = Verified { proto: Resp::of(script), job, verify };
                Box::new(Worker::connect(&proto, job, 0, shared)?)
            }
            (Traffic::Memcached(load), None) => Box::new(Worker::connect(&load.proto, job, 0, shared)?),
            (Traffic::Memcached(load), Some(verify)) => {
                let proto = Verified { proto: load.proto.clone(), job, verify };
                Box::new(Worker::connect(&proto, job, 0, shared)?)
            }
        })
    }

    pub fn run(&self, job: &Job, stages: &[Stage], watcher: Watcher) -> Result<Outcome, Failure> {
        workers::run_in_order(stages, |next_stage| self.run_from(job, next_stage, watcher))
    }
}
