//! One phase of a duel: keys, warm-up, and pairs of slices.

use std::time::Duration;

use crate::contest::{Contest, Slice, placed};
use crate::document::DuelResult;
use crate::plan::{DuelPlan, window};
use crate::prefill::{fill, prefill};
use crate::ratio::{ratios, so_far};
use crate::server_use::ServerUse;
use crate::sides::{Side, Sides};
use crate::tally::{GROUPS, Tally};
use crate::verdict::Verdict;
use crate::warmup::{WarmedUp, warm_up};
use engine::job::Job;
use engine::progress::Shared;
use engine::schedule::Arrivals;
use engine::stage::Stage;
use report::prefill::Prefill;
use report::progress_line::ProgressLine;
use report::result::TestResult;
use session::session::Session;
use text::failure::Failure;
use text::units::{NS_PER_MS, ns, per, round, seconds};
use workload::file::write;
use workload::mode::Mode;
use workload::phase::Phase;
use workload::traffic::Traffic;

const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// The random gaps of measured slices have series from here on; those before are of the warm-up.
const MEASURED_SERIES: u64 = 1 << 20;
/// A server that uses more than this share of a core while the other one is measured is not at rest.
const BUSY_ABOVE: f64 = 0.05;

/// What was measured of a phase, and what failed: why it ended early, or what could not be read.
pub type Ended = (DuelResult, Vec<Failure>);

/// Measure `phase`, which is number `number` of the plan. A failure if not even one pair was measured.
pub fn measure(
    plan: &DuelPlan,
    sessions: &Sides<Session>,
    phase: &Phase,
    number: u64,
) -> Result<Ended, Failure> {
    let prefills = phase.prefill.then(|| prefill(plan, sessions, phase)).transpose()?;
    fill(plan, &sessions.map(|session| session.needed(phase)))?;
    let loads = sessions.map(|session| driven(session.load(phase)));
    let shared = Shared::new(1, &[]);
    let mut contest = Contest::open(plan, number, loads.map(|(traffic, job)| (traffic, job)), &shared)?;
    let warmed_up = warm_up(&mut contest, phase, |ns, at| stage(phase, ns, at))?;
    let slice_ms = plan.slice_ms.unwrap_or(warmed_up.slice_ms);
    let mut course = Course::new(phase, slice_ms);
    let before = ServerUse::read(sessions);
    let ended = course.go(&mut contest, phase);
    if course.slices.is_empty() {
        ended.clone()?;
    }
    let unread = course.add_use(&before, sessions);
    let mut result = course.end(plan, phase, (sessions, prefills), warmed_up);
    let failures = match ended {
        Err(failure) => vec![failure],
        Ok(()) => Side::BOTH
            .into_iter()
            .flat_map(|side| {
                let unread = contest.unreadable.of(side).as_ref().or(unread.of(side).as_ref());
                let results = std::slice::from_mut(result.of_mut(side));
                let checked = sessions.of(side).check_expectations(phase, results);
                let address = plan.sides.of(side).target.address.to_string();
                [unread.cloned(), checked.map_err(|failure| placed(failure, side, &address)).err()]
            })
            .flatten()
            .collect(),
    };
    Ok((result, failures))
}

/// The load without what the duel itself reads.
fn driven((traffic, job): (Traffic, Job)) -> (Traffic, Job) {
    (traffic, Job { server_pid: None, counters: None, ..job })
}

fn arrivals(phase: &Phase, series: u64) -> Option<Arrivals> {
    match phase.mode {
        Mode::Open { rate, arrivals } => {
            Some(Arrivals { rate, process: arrivals, series: series as u32, ramp: None })
        }
        _ => None,
    }
}

/// A slice of `phase`. Both slices of a pair have the same number, so the same gaps.
fn stage(phase: &Phase, ns: u64, number: u64) -> Stage {
    Stage::Slice { ns, arrivals: arrivals(phase, number) }
}

/// The pairs of slices that are measured.
struct Course {
    pairs: u64,
    slice_ms: u64,
    slices: Vec<Slice>,
    tallies: Sides<Tally>,
}

impl Course {
    fn new(phase: &Phase, slice_ms: u64) -> Course {
        let pairs = (seconds(ns(window(phase))) * 1000.0 / slice_ms as f64).round().max(1.0) as u64;
        Course { pairs, slice_ms, slices: Vec::new(), tallies: Sides::default() }
    }

    fn go(&mut self, contest: &mut Contest, phase: &Phase) -> Result<(), Failure> {
        let mut line = ProgressLine::new(&phase.name);
        for pair in 0..self.pairs {
            let measured = contest.pair(stage(phase, self.slice_ms * NS_PER_MS, MEASURED_SERIES + pair))?;
            let group = (pair * GROUPS / self.pairs) as usize;
            self.tallies.base.add(&measured.base, group);
            self.tallies.head.add(&measured.head, group);
            let [first, second] = measured.in_order();
            self.slices.extend([first.slice, second.slice]);
            if line.is_due(PROGRESS_EVERY) {
                line.say(&self.progress(pair + 1));
            }
        }
        Ok(())
    }

    /// Add what both servers have used since `before`; why not, where it cannot be read.
    fn add_use(&mut self, before: &ServerUse, sessions: &Sides<Session>) -> Sides<Option<Failure>> {
        let after = ServerUse::read(sessions);
        Sides::each(|side| {
            let record = self.tallies.of_mut(side).record_mut();
            before.add(&after, (side, sessions.of(side)), record).err()
        })
    }

    fn progress(&self, done: u64) -> String {
        let ratio = so_far(&self.slices).map(|(metric, center, reach)| {
            let within = reach.map_or(String::new(), |reach| format!(" ± {:.1}%", reach.exp_m1() * 100.0));
            format!(", head/base {metric} {:+.1}%{within}", center.exp_m1() * 100.0)
        });
        format!("pair {done} of {}{}", self.pairs, ratio.unwrap_or_default())
    }

    fn end(
        self,
        plan: &DuelPlan,
        phase: &Phase,
        (sessions, prefills): (&Sides<Session>, Option<Sides<Prefill>>),
        warmed_up: WarmedUp,
    ) -> DuelResult {
        let Course { slice_ms, slices, tallies, .. } = self;
        let resting_cpu_share = Sides::each(|side| resting_share(&slices, side));
        let flags = flags(plan, &resting_cpu_share);
        let groups = tallies.map(|tally| tally.groups.clone());
        let result = |side: Side, tally: Tally| {
            let (_, job) = sessions.of(side).load(phase);
            let job = Job { slice_ns: slice_ms * NS_PER_MS, ..job };
            let prefill = prefills.as_ref().map(|prefills| prefills.of(side).clone());
            let result = tally.result(job, write::written(phase), phase.mode.name(), arrivals(phase, 0));
            TestResult { prefill, ..result.after(*warmed_up.warmups.of(side)) }
        };
        let (base, head) = (result(Side::Base, tallies.base), result(Side::Head, tallies.head));
        let ratios = ratios(&slices, &groups.map(Vec::as_slice), &Sides { base: &base, head: &head });
        DuelResult {
            name: phase.name.clone(),
            pairs: slices.len() / 2,
            slice_ms,
            verdict: Verdict::of(&ratios, phase.mode.name()),
            ratios,
            resting_cpu_share,
            flags,
            slices,
            base,
            head,
        }
    }
}

/// The share of a core that the server of `side` used while the other one was measured.
fn resting_share(slices: &[Slice], side: Side) -> Option<f64> {
    let others = || slices.iter().filter(|slice| slice.side == side.other());
    let used: Option<u64> = others().map(|slice| slice.resting_cpu_ns).sum();
    let passed: u64 = others().map(|slice| slice.ns).sum();
    used.map(|used| round(per(used as f64, passed as f64), 4))
}

fn flags(plan: &DuelPlan, resting: &Sides<Option<f64>>) -> Vec<&'static str> {
    let is_one = plan.is_one_server();
    let is_busy = Side::BOTH.iter().any(|side| resting.of(*side).is_some_and(|share| share > BUSY_ABOVE));
    let raised = [("one_server", is_one), ("resting_busy", is_busy && !is_one)];
    raised.into_iter().filter(|(_, raised)| *raised).map(|(flag, _)| flag).collect()
}
