//! What a workload sends, in the protocol of its server.

use crate::memcached::load::Load;
use engine::job::Job;
use engine::outcome::{Outcome, StageSource};
use engine::progress::Watcher;
use engine::stage::Stage;
use engine::verified::Verified;
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
                &Verified { proto: &Resp::of(script), job, verify },
                job,
                next_stage,
                watcher,
            ),
            (Traffic::Memcached(load), None) => workers::run_from(&load.proto, job, next_stage, watcher),
            (Traffic::Memcached(load), Some(verify)) => {
                workers::run_from(&Verified { proto: &load.proto, job, verify }, job, next_stage, watcher)
            }
        }
    }

    pub fn run(&self, job: &Job, stages: &[Stage], watcher: Watcher) -> Result<Outcome, Failure> {
        workers::run_in_order(stages, |next_stage| self.run_from(job, next_stage, watcher))
    }
}
