//! The keys of both servers, stored in alternation.

use crate::contest::{Contest, placed};
use crate::plan::DuelPlan;
use crate::sides::{Side, Sides};
use engine::job::Job;
use engine::progress::Shared;
use engine::stage::Stage;
use report::prefill::Prefill;
use session::session::Session;
use text::failure::Failure;
use workload::filling::Filling;
use workload::phase::Phase;

/// A filling is cut into about so many pieces ...
const PIECES: u64 = 16;
/// ... of at least so many batches of each connection.
const FEWEST_BATCHES: u64 = 8;
/// Contests of fillings have numbers from here on.
const NUMBERS: u64 = 1 << 16;

/// Set every key of `phase` once in both servers, then ask each how many it holds.
pub fn prefill(plan: &DuelPlan, sessions: &Sides<Session>, phase: &Phase) -> Result<Sides<Prefill>, Failure> {
    let of = |side: Side, failure| placed(failure, side, &plan.sides.of(side).target.address.to_string());
    let before = Sides::try_each(|side| sessions.of(side).server_memory())?;
    let ns = fill(plan, &sessions.map(|session| session.fillings(phase)))?;
    Sides::try_each(|side| {
        let filled = sessions.of(side).prefilled(phase, *before.of(side), *ns.of(side));
        filled.map_err(|failure| of(side, failure))
    })
}

/// Send the `requests` of a phase that is not measured to both servers.
pub fn prepare(
    plan: &DuelPlan,
    sessions: &Sides<Session>,
    phase: &Phase,
    requests: u64,
) -> Result<(), Failure> {
    let load = |session: &Session| {
        let (traffic, job) = session.load(phase);
        vec![Filling { traffic, job: Job { server_pid: None, counters: None, ..job }, requests }]
    };
    fill(plan, &sessions.map(load)).map(drop)
}

/// Store what `fillings` name, the same on both sides, piece by piece; the time that each side took.
pub fn fill(plan: &DuelPlan, fillings: &Sides<Vec<Filling>>) -> Result<Sides<u64>, Failure> {
    let shared = Shared::new(1, &[]);
    let mut ns = Sides::default();
    for (number, (base, head)) in (NUMBERS..).zip(fillings.base.iter().zip(&fillings.head)) {
        let loads = Sides { base: (&base.traffic, &base.job), head: (&head.traffic, &head.job) };
        let mut contest = Contest::open(plan, number, loads, &shared)?;
        for requests in pieces(base) {
            let Sides { base, head } = contest.pair(Stage::Exactly { requests })?;
            ns = Sides { base: ns.base + base.slice.ns, head: ns.head + head.slice.ns };
        }
    }
    Ok(ns)
}

/// The requests of each piece. All but the last are multiples of the number of connections, so that each connection
/// sends what it would send without the cuts.
fn pieces(filling: &Filling) -> impl Iterator<Item = u64> {
    let clients = filling.job.clients as u64;
    let fewest = FEWEST_BATCHES * filling.job.pipeline as u64;
    let piece = (filling.requests / PIECES).div_ceil(clients).max(fewest) * clients;
    let all = filling.requests;
    (0..all.div_ceil(piece)).map(move |at| piece.min(all - at * piece))
}
