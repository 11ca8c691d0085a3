//! Phases in modes in which connections do not just send again and again.

use engine::job::Job;
use engine::outcome::Outcome;
use engine::stage::Stage;
use modes::findings::Findings;
use modes::openings::Connections;
use modes::{blocking, churn, idle, pubsub};
use protocol::resp::Resp;
use text::failure::Failure;
use workload::mode::Mode;
use workload::phase::Phase;
use workload::traffic::Traffic;

/// One stage of `job` in a mode in which connections do not just send again and again.
pub fn run(
    phase: &Phase,
    traffic: &Traffic,
    job: &Job,
    stage: Stage,
) -> Result<(Outcome, Findings), Failure> {
    let value_bytes = phase.values.largest();
    match (&phase.mode, traffic) {
        (Mode::Idle, Traffic::Resp(script)) => {
            idle::run(&Resp::of(script), job, stage).map(found_connections)
        }
        (Mode::Idle, Traffic::Memcached(load)) => idle::run(&load.proto, job, stage).map(found_connections),
        (Mode::PubSub(setting), _) => pubsub::run(job, setting, value_bytes, stage)
            .map(|(outcome, fanout)| (outcome, Findings { fanout: Some(fanout), ..Findings::default() })),
        (Mode::Blocking(setting), _) => blocking::run(job, setting, value_bytes, stage)
            .map(|(outcome, wakeup)| (outcome, Findings { wakeup: Some(wakeup), ..Findings::default() })),
        (_, Traffic::Resp(script)) => churn::run(&Resp::of(script), job, stage).map(found_connections),
        (_, Traffic::Memcached(load)) => churn::run(&load.proto, job, stage).map(found_connections),
    }
}

fn found_connections((outcome, connections): (Outcome, Connections)) -> (Outcome, Findings) {
    (outcome, Findings { connections: Some(connections), ..Findings::default() })
}
