//! A ladder: runs at several values of one setting, in shuffled order, reported in one document.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::thread;

use jiff::Timestamp;

use crate::fresh_server::{self, FreshServer};
use crate::prefill::{needs_empty_server, require_empty_server};
use crate::run::{self, driver, own_digest, rfc3339};
use engine::{cluster, resources};
use machine::environment::Environment;
use machine::signals;
use network::memcached;
use network::target::Target;
use protocol::reply::Reply;
use report::document::{Document, TargetName};
use report::ladder::{LadderDocument, Rung, SCHEMA};
use text::failure::Failure;
use workload::ladder::Ladder;
use workload::plan::Plan;
use workload::protocol_name::ProtocolName;

/// What is measured at each rung, and on which server.
pub struct LadderRun<'a> {
    pub plan: &'a Plan,
    pub ladder: &'a Ladder,
    /// The plan at each value of the ladder.
    pub plans: Vec<Plan>,
    /// The command of a server that each rung gets; none: that of the plan serves all.
    pub fresh_server: Option<&'a str>,
}

/// Run `ladder`. A rung that fails says so on stderr and in the document; the run fails when none succeeds.
pub fn run(ladder: &LadderRun) -> Result<LadderDocument, Failure> {
    if ladder.fresh_server.is_none() {
        if ladder.plan.protocol == ProtocolName::Memcached {
            ladder.plan.servers().try_for_each(memcached::require_logins)?;
        }
        ladder.plan.servers().try_for_each(|server| server.open_connection().map(drop))?;
        require_empty_server(ladder.plan)?;
    }
    let environment = Environment::read();
    let started_at = rfc3339(Timestamp::now());
    let (digest, mut rungs) = (own_digest()?, Vec::new());
    let unreachable = ladder.unreachable();
    for (place, at) in (1..).zip(ladder.ladder.order(ladder.plan.seed)) {
        let began = rfc3339(Timestamp::now());
        let outcome = match &unreachable[at] {
            Some(failure) => Err(failure.clone()),
            None => ladder.measure(at, place).inspect_err(|failure| ladder.report(at, failure)),
        };
        rungs.push((at, rung(ladder.ladder.values[at], place, began, outcome)));
        if signals::received().is_some() {
            break;
        }
    }
    let cut_short = resources::check_signals().err().map(|failure| failure.to_string());
    rungs.sort_by_key(|(at, _)| *at);
    let rungs: Vec<Rung> = rungs.into_iter().map(|(_, rung)| rung).collect();
    if rungs.iter().all(|rung| rung.tests.is_empty()) {
        return Err(Failure::run("no rung of the ladder was measured", "the lines above say why"));
    }
    let phases = ladder.plans.iter().flat_map(|plan| plan.phases.clone()).collect();
    let whole = Plan { phases, ..ladder.plan.clone() };
    Ok(LadderDocument {
        schema: SCHEMA,
        driver: driver(&whole, digest),
        target: TargetName {
            protocol: whole.protocol.name().into(),
            address: ladder.fresh_server.map_or_else(|| whole.address(), str::to_owned),
        },
        started_at,
        environment,
        axis: ladder.ladder.axis.name(),
        fresh: ladder.fresh_server.is_some(),
        rungs,
        cut_short,
    })
}

fn rung(value: f64, place: usize, started_at: String, outcome: Result<Document, Failure>) -> Rung {
    let empty = Rung { value, place, started_at, prefill: None, tests: Vec::new(), failure: None };
    match outcome {
        Ok(Document { started_at, cut_short: Some(cut), .. }) => {
            Rung { started_at, failure: Some(cut.line()), ..empty }
        }
        Ok(Document { started_at, prefill, tests, .. }) => Rung { started_at, prefill, tests, ..empty },
        Err(failure) => Rung { failure: Some(failure.to_string()), ..empty },
    }
}

impl LadderRun<'_> {
    /// For each rung, why this machine cannot open its connections; said before anything is measured.
    fn unreachable(&self) -> Vec<Option<Failure>> {
        let failure =
            |(at, plan)| self.require_resources(plan).err().inspect(|failure| self.report(at, failure));
        self.plans.iter().enumerate().map(failure).collect()
    }

    fn require_resources(&self, plan: &Plan) -> Result<(), Failure> {
        let mut plan = plan.clone();
        if let Some(command) = self.fresh_server {
            // Its port and its directory are of no account here, but whether it has a port is.
            plan.target.address = fresh_server::address(command, 0, Path::new(""))?;
        }
        run::require_resources(&plan)
    }

    fn report(&self, at: usize, failure: &Failure) {
        eprintln!("speedbench: {}: {failure}", self.name(at));
    }

    fn name(&self, at: usize) -> String {
        format!("{} = {}", self.ladder.axis.name(), self.ladder.values[at])
    }

    /// The rung number `at`.
    fn measure(&self, at: usize, place: usize) -> Result<Document, Failure> {
        self.show(at, place);
        let Some(command) = self.fresh_server else {
            empty(&self.plans[at])?;
            return run_apart(&self.plans[at]);
        };
        let server = FreshServer::start(command, &self.plan.target)?;
        let mut plan = self.plans[at].clone();
        plan.target.address = server.address.clone();
        plan.server_pid = Some(server.pid());
        run_apart(&plan)
    }

    /// Say on a terminal how far the ladder is.
    fn show(&self, at: usize, place: usize) {
        if std::io::stderr().is_terminal() {
            let line = format!("rung {place} of {}: {}\n", self.plans.len(), self.name(at));
            // A lost line of progress does no harm.
            let _ = std::io::stderr().lock().write_all(line.as_bytes());
        }
    }
}

/// Take away the keys of the rung before, if the prefill of `plan` must not find any: the server held none when the ladder
/// began.
fn empty(plan: &Plan) -> Result<(), Failure> {
    match plan.protocol {
        _ if !needs_empty_server(plan) => Ok(()),
        ProtocolName::Memcached => plan.servers().try_for_each(memcached::flush),
        ProtocolName::Resp if plan.cluster => {
            cluster::masters(&plan.target)?.iter().try_for_each(|master| flush(&master.target))
        }
        ProtocolName::Resp => flush(&plan.target),
    }
}

fn flush(server: &Target) -> Result<(), Failure> {
    match server.query(&["FLUSHDB"])? {
        Reply::Error(text) => Err(Failure::run(
            format!("the server refused FLUSHDB, with which a prefilled rung begins: -{text}"),
            "give --fresh-server, or --prefill=force",
        )),
        _ => Ok(()),
    }
}

/// Run `plan` on a thread of its own, so that the CPUs it is pinned to are not those of the next server.
fn run_apart(plan: &Plan) -> Result<Document, Failure> {
    let ended = thread::scope(|scope| scope.spawn(|| run::run(plan)).join());
    ended.unwrap_or_else(|_| Err(Failure::run("a rung ended without a word", "report this as a defect")))
}
