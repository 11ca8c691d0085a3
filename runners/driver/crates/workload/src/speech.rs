//! What a workload sends, in the protocol of its server.

use crate::memcached::load::Load;
use engine::job::Job;
use engine::outcome::{Director, Outcome};
use engine::progress::Watcher;
use engine::stage::Stage;
use engine::verified::Verified;
use engine::workers;
use protocol::resp::Resp;
use protocol::script::Script;
use text::failure::Failure;

/// What a workload sends, in the protocol of its server.
pub enum Speech {
    Resp(Script),
    Memcached(Load),
}

impl Speech {
    pub fn script(&self) -> &Script {
        match self {
            Speech::Resp(script) => script,
            Speech::Memcached(load) => &load.script,
        }
    }

    pub fn direct(&self, job: &Job, director: Director, watcher: Watcher) -> Result<(), Failure> {
        match (self, &job.verify) {
            (Speech::Resp(script), None) => workers::direct(&Resp::of(script), job, director, watcher),
            (Speech::Resp(script), Some(verify)) => {
                workers::direct(&Verified { proto: &Resp::of(script), job, verify }, job, director, watcher)
            }
            (Speech::Memcached(load), None) => workers::direct(&load.proto, job, director, watcher),
            (Speech::Memcached(load), Some(verify)) => {
                workers::direct(&Verified { proto: &load.proto, job, verify }, job, director, watcher)
            }
        }
    }

    pub fn run(&self, job: &Job, stages: &[Stage], watcher: Watcher) -> Result<Outcome, Failure> {
        workers::in_turn(stages, |director| self.direct(job, director, watcher))
    }
}
