//! Phases on a schedule: one rate, several in shuffled order, or the search for the highest under a limit. All rates
//! of a phase are measured on the same connections.

use crate::rate_search::{self, RateSearch};
use crate::session::Session;
use crate::warmup;
use engine::job::Job;
use engine::outcome::Outcome;
use engine::schedule::{ArrivalProcess, Arrivals};
use engine::stage::Stage;
use engine::total::Total;
use generator::rng::Rng;
use report::result::TestResult;
use report::steps::StepResult;
use report::warmup::WarmUp;
use text::failure::Failure;
use text::units::{self, seconds};
use workload::file::write;
use workload::mode::{Limit, Mode};
use workload::phase::{Length, Phase};
use workload::ramp;

/// A search begins at this share of the rate that a closed loop reaches ...
const FIRST_PART: f64 = 0.25;
/// ... within at most so much time, ns.
const CLOSED_NS: u64 = 1_000_000_000;

impl Session<'_> {
    /// A phase in one of the modes that have a schedule.
    pub fn measure_scheduled(&self, phase: &Phase) -> Result<Vec<TestResult>, Failure> {
        match &phase.mode {
            Mode::Open { rate, arrivals } => {
                self.open(phase, Arrivals { rate: *rate, process: *arrivals, series: 0, ramp: None })
            }
            Mode::Ramp { setting, .. } if phase.mode.ramps_clients() => self.client_ramp(phase, setting),
            Mode::Ramp { setting, arrivals } => self.ramp(phase, setting, *arrivals),
            Mode::Sweep { rates, arrivals } => self.sweep(phase, rates, *arrivals),
            Mode::Search { limit, arrivals, from } => self.search(phase, *limit, *arrivals, *from),
            _ => unreachable!("a mode without a schedule"),
        }
    }

    /// One schedule.
    fn open(&self, phase: &Phase, arrivals: Arrivals) -> Result<Vec<TestResult>, Failure> {
        let (traffic, job) = self.prepare(phase)?;
        let mut line = self.line(phase);
        let window_ns = window_ns(phase, arrivals.rate);
        let (outcome, warmup) = warmup::run(
            phase,
            (&traffic, &job),
            |window_ns, series| Stage::Open {
                warmup_ns: 0,
                window_ns,
                arrivals: Arrivals { series, ..arrivals },
            },
            |warmup| vec![Stage::Open { warmup_ns: units::ns(warmup), window_ns, arrivals }],
            &mut |progress| self.watch(&mut line, progress),
        )?;
        Ok(vec![result(&job, phase, &outcome).after(warmup)])
    }

    /// A rate that changes, with results by step.
    fn ramp(
        &self,
        phase: &Phase,
        setting: &ramp::Setting,
        process: ArrivalProcess,
    ) -> Result<Vec<TestResult>, Failure> {
        let ramp = setting.ramp(phase.warmup.as_secs_f64(), seconds(window_ns(phase, 1.0)));
        let rate = setting.from.max(setting.to);
        let mut results = self.open(phase, Arrivals { rate, process, series: 0, ramp: Some(ramp) })?;
        results.iter_mut().for_each(|result| result.steps = StepResult::all(result, setting.steps, &ramp));
        Ok(results)
    }

    /// Connections that change in number, in a closed loop, with results by step.
    fn client_ramp(&self, phase: &Phase, setting: &ramp::Setting) -> Result<Vec<TestResult>, Failure> {
        let (traffic, job) = self.prepare(phase)?;
        let mut line = self.line(phase);
        let (warmup_ns, window_ns) = (units::ns(phase.warmup), window_ns(phase, 1.0));
        let clients = setting.ramp(seconds(warmup_ns), seconds(window_ns));
        let stage = Stage::Ramped { warmup_ns, window_ns, clients };
        let outcome = traffic.run(&job, &[stage], &mut |progress| self.watch(&mut line, progress))?;
        let mut result = result(&job, phase, &outcome);
        result.steps = StepResult::all(&result, setting.steps, &clients);
        Ok(vec![result])
    }

    /// Each of `rates` once, in a random order; the results in the order of the rates.
    fn sweep(
        &self,
        phase: &Phase,
        rates: &[f64],
        process: ArrivalProcess,
    ) -> Result<Vec<TestResult>, Failure> {
        let (traffic, job) = self.prepare(phase)?;
        let mut line = self.line(phase);
        let mut left: Vec<(u32, f64)> = (0..).zip(shuffled(rates, job.seed)).collect();
        let mut results = Vec::new();
        let mut next_stage = |outcome: Option<Outcome>| {
            results.extend(outcome.map(|outcome| result(&job, phase, &outcome)));
            let (series, rate) = left.pop()?;
            Some(stage(phase, Arrivals { rate, process, series, ramp: None }))
        };
        traffic.run_from(&job, &mut next_stage, &mut |progress| line.update(progress))?;
        let rate = |test: &TestResult| (test.cut.is_some(), asked_rps(test));
        results.sort_by(|a, b| rate(a).partial_cmp(&rate(b)).expect("rates are numbers"));
        Ok(results)
    }

    /// One result: the run at the highest rate that held `limit`, or the last one when none did.
    fn search(
        &self,
        phase: &Phase,
        limit: Limit,
        process: ArrivalProcess,
        from: Option<f64>,
    ) -> Result<Vec<TestResult>, Failure> {
        let (traffic, job) = self.prepare(phase)?;
        let mut line = self.line(phase);
        let climb_from = |rate| RateSearch::new(rate, limit, seconds(window_ns(phase, 1.0)));
        let mut search = from.map(climb_from);
        let (mut best, mut last): (Option<TestResult>, _) = (None, None);
        let (mut series, mut cut) = (0, None);
        let mut next_stage = |outcome: Option<Outcome>| {
            match (&mut search, outcome) {
                (None, None) => return Some(closed(phase)),
                (None, Some(outcome)) if outcome.cut.is_some() => cut = outcome.cut,
                (None, Some(outcome)) => search = Some(climb_from(FIRST_PART * throughput(&outcome))),
                (Some(_), None) => {}
                (Some(search), Some(outcome)) => {
                    let test = result(&job, phase, &outcome);
                    if outcome.cut.is_some() {
                        last = Some(test);
                        return None;
                    }
                    let latency = &Total::of(&outcome).latency;
                    let latency_us = latency.quantile(limit.percentile / 100.0) as f64 / 1000.0;
                    search.add(rate_search::step(&test, latency_us, limit));
                    match search.found() {
                        Some(_) => best = Some(test),
                        None => last = Some(test),
                    }
                }
            }
            let rate = search.as_ref()?.next()?;
            series += 1;
            Some(stage(phase, Arrivals { rate, process, series, ramp: None }))
        };
        traffic.run_from(&job, &mut next_stage, &mut |progress| line.update(progress))?;
        let search = search.map(|search| search.end(limit));
        let is_cut = last.as_ref().is_some_and(|test| test.cut.is_some());
        let found = if is_cut { last } else { best.or(last) };
        let mut found = match (found, cut) {
            (Some(found), _) => found,
            (None, Some(cut)) => return Err(cut.failure),
            (None, None) => unreachable!("at least one rate is tried"),
        };
        for flag in search.iter().flat_map(|search| &search.limited_by) {
            if !found.flags.contains(flag) {
                found.flags.push(flag.clone());
            }
        }
        found.search = search;
        Ok(vec![found])
    }
}

fn result(job: &Job, phase: &Phase, outcome: &Outcome) -> TestResult {
    let result = TestResult::new(job, write::written(phase), phase.mode.name(), outcome)
        .after(WarmUp::fixed(phase.warmup));
    let name = match phase.mode {
        Mode::Sweep { .. } => format!("{}@{}", result.name, asked_rps(&result)),
        _ => result.name,
    };
    TestResult { name, ..result }
}

fn asked_rps(result: &TestResult) -> f64 {
    result.open.as_ref().map_or(0.0, |open| open.asked_rps)
}

fn stage(phase: &Phase, arrivals: Arrivals) -> Stage {
    let window_ns = window_ns(phase, arrivals.rate);
    Stage::Open { warmup_ns: units::ns(phase.warmup), window_ns, arrivals }
}

/// The window of `phase` at `rate`.
fn window_ns(phase: &Phase, rate: f64) -> u64 {
    match phase.length {
        Length::Lasting(window) => units::ns(window),
        Length::Requests(requests) => (requests as f64 * 1e9 / rate) as u64,
    }
}

/// The stage whose rate a search begins with.
fn closed(phase: &Phase) -> Stage {
    Stage::Timed { warmup_ns: units::ns(phase.warmup), window_ns: window_ns(phase, 1.0).min(CLOSED_NS) }
}

/// Replies per second.
fn throughput(outcome: &Outcome) -> f64 {
    let total = Total::of(outcome);
    total.inside.replies as f64 * 1e9 / total.window_ns as f64
}

/// `rates` in an order that `seed` decides (Fisher and Yates).
fn shuffled(rates: &[f64], seed: u64) -> Vec<f64> {
    let (mut rates, mut rng) = (rates.to_vec(), Rng::stream(seed, u64::MAX - 1));
    for last in (1..rates.len()).rev() {
        rates.swap(last, rng.below(last as u64 + 1) as usize);
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_rates_is_the_seeds() {
        let rates: Vec<f64> = (0..20).map(f64::from).collect();
        let order = shuffled(&rates, 1);
        assert_eq!(order, shuffled(&rates, 1));
        assert!(order != shuffled(&rates, 2) && order != rates);
        let mut sorted = order;
        sorted.sort_by(f64::total_cmp);
        assert_eq!(sorted, rates);
    }
}
