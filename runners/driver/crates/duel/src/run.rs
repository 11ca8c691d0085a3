//! A duel from the first connection to the document.

use jiff::Timestamp;

use crate::contest::{placed, server_clock};
use crate::document::{Document, SCHEMA, Server};
use crate::measure::measure;
use crate::plan::{DuelPlan, counted};
use crate::prefill::prepare;
use crate::sides::{Side, Sides};
use crate::verdict::CAVEAT;
use engine::resources::{pin_to, require_files, require_ports};
use machine::environment::Environment;
use machine::this_thread;
use session::prefill::require_empty_server;
use session::run::{driver, own_digest, rfc3339};
use session::session::Session;
use text::failure::Failure;

/// Run `asked`. The document has what was measured, and what failed; a failure when no pair was measured.
pub fn run(asked: &DuelPlan) -> Result<Document, Failure> {
    let common = asked.common();
    let environment = Environment::read();
    if let Some(cpu) = common.cpus.first() {
        pin_to(&[*cpu])?;
    }
    this_thread::wake_punctually();
    let (plan, mut failures) = readable(asked);
    let plan = &plan;
    let digest = own_digest()?;
    let started_at = rfc3339(Timestamp::now());
    require_resources(plan)?;
    let sessions = Sides::try_each(|side| Session::new(plan.sides.of(side)))?;
    require_empty_servers(plan)?;
    let mut tests = Vec::new();
    for (number, phase) in (0..).zip(&common.phases) {
        let ended = match counted(phase) {
            Some(requests) => prepare(plan, &sessions, phase, requests).err().into_iter().collect(),
            None => measure(plan, &sessions, phase, number).map_or_else(
                |failure| vec![failure],
                |(test, ended)| {
                    tests.push(test);
                    ended
                },
            ),
        };
        if !ended.is_empty() {
            failures.extend(ended);
            break;
        }
    }
    let failure = Failure::joined(failures);
    if tests.is_empty() {
        failure.clone().map_or(Ok(()), Err)?;
    }
    Ok(Document {
        schema: SCHEMA,
        driver: driver(common, digest),
        protocol: common.protocol.name(),
        base: server(asked, Side::Base),
        head: server(asked, Side::Head),
        started_at,
        environment,
        caveat: CAVEAT,
        tests,
        failure,
    })
}

/// `plan` without the processes whose CPU clock cannot be read, and why it cannot.
fn readable(plan: &DuelPlan) -> (DuelPlan, Vec<Failure>) {
    let (mut plan, mut failures) = (plan.clone(), Vec::new());
    for side in Side::BOTH {
        let pid = &mut plan.sides.of_mut(side).server_pid;
        if let Some(failure) = pid.and_then(|pid| server_clock(side, pid).err()) {
            *pid = None;
            failures.push(failure);
        }
    }
    (plan, failures)
}

fn server(plan: &DuelPlan, side: Side) -> Server {
    let plan = plan.sides.of(side);
    Server { address: plan.target.address.to_string(), pid: plan.server_pid }
}

/// A failure when this machine cannot open the connections to both servers.
fn require_resources(plan: &DuelPlan) -> Result<(), Failure> {
    for phase in &plan.common().phases {
        require_files(2 * phase.clients, 1)?;
        Side::BOTH
            .into_iter()
            .try_for_each(|side| require_ports(&plan.sides.of(side).target, phase.clients))?;
    }
    Ok(())
}

fn require_empty_servers(plan: &DuelPlan) -> Result<(), Failure> {
    Side::BOTH.into_iter().try_for_each(|side| {
        let plan = plan.sides.of(side);
        let address = plan.target.address.to_string();
        require_empty_server(plan).map_err(|failure| placed(failure, side, &address))
    })
}
