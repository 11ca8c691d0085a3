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

/// Run `plan`. When a server fails after a pair was measured, the document has what was measured, and the failure.
pub fn run(plan: &DuelPlan) -> Result<Document, Failure> {
    let common = plan.common();
    let environment = Environment::read();
    if let Some(cpu) = common.cpus.first() {
        pin_to(&[*cpu])?;
    }
    this_thread::wake_punctually();
    for side in Side::BOTH {
        plan.sides.of(side).server_pid.map(|pid| server_clock(side, pid)).transpose()?;
    }
    let digest = own_digest()?;
    let started_at = rfc3339(Timestamp::now());
    require_resources(plan)?;
    let sessions = Sides::try_each(|side| Session::new(plan.sides.of(side)))?;
    require_empty_servers(plan)?;
    let (mut tests, mut failure) = (Vec::new(), None);
    for (number, phase) in (0..).zip(&common.phases) {
        if let Some(requests) = counted(phase) {
            prepare(plan, &sessions, phase, requests)?;
            continue;
        }
        match measure(plan, &sessions, phase, number) {
            Ok((test, ended)) => {
                tests.push(test);
                failure = ended;
            }
            Err(ended) if tests.is_empty() => return Err(ended),
            Err(ended) => failure = Some(ended),
        }
        if failure.is_some() {
            break;
        }
    }
    Ok(Document {
        schema: SCHEMA,
        driver: driver(common, digest),
        protocol: common.protocol.name(),
        base: server(plan, Side::Base),
        head: server(plan, Side::Head),
        started_at,
        environment,
        caveat: CAVEAT,
        tests,
        failure,
    })
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
