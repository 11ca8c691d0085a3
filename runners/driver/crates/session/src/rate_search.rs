//! The search for the highest rate whose latencies keep a limit: which rate is tried next, and what was found.

use std::borrow::Cow;

use report::flags;
use report::result::TestResult;
use report::search::{Search, Step};
use text::units::round;
use workload::mode::Limit;

/// Rates that are nearer to each other than this are the same.
const RESOLUTION: f64 = 1.02;
/// A search ends after so many rates.
const MOST_STEPS: usize = 30;
/// No rate is tried at which fewer requests are expected in the window, nor one at which none is beyond the percentile.
const FEWEST: f64 = 10.0;
const MOST_FEWEST: f64 = 1000.0;
/// Flags under which a missed limit may be the driver's fault.
const OF_THE_DRIVER: [&str; 3] = [flags::CLIENT_BOUND, flags::CLIENT_DELAYED, flags::SLIPPED];

/// The step that `test` was, whose latency at the limit's percentile is `latency_us`.
pub fn step(test: &TestResult, latency_us: f64, limit: Limit) -> Step {
    let (asked_rps, unsent) = test.open.as_ref().map_or((0.0, 0), |open| (open.asked_rps, open.unsent));
    Step {
        asked_rps,
        throughput_rps: test.throughput_rps,
        latency_us: round(latency_us, 3),
        unsent,
        held: unsent == 0 && latency_us <= limit.us,
        flags: test.flags.clone(),
    }
}

/// Flags that make the driver a suspect. Requests for which an overloaded server left no room are not sent late by the
/// driver.
fn suspicions(step: &Step) -> Vec<Cow<'static, str>> {
    let suspicious = |flag: &&Cow<str>| {
        OF_THE_DRIVER.contains(&&***flag) && !(**flag == flags::SLIPPED && step.unsent > 0)
    };
    step.flags.iter().filter(suspicious).cloned().collect()
}

/// Doubles from a first rate until the limit is missed, bisects, and tries the highest rate that held again.
pub struct RateSearch {
    first: f64,
    lowest: f64,
    steps: Vec<Step>,
}

impl RateSearch {
    /// Begins with `first` requests/s in windows of `window_s`.
    pub fn new(first: f64, limit: Limit, window_s: f64) -> RateSearch {
        let fewest = (1.0 / (1.0 - limit.percentile / 100.0)).clamp(FEWEST, MOST_FEWEST);
        let lowest = fewest / window_s;
        RateSearch { first: first.max(lowest), lowest, steps: Vec::new() }
    }

    pub fn add(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// The lowest rate that missed the limit.
    fn lowest_missed(&self) -> Option<&Step> {
        let missed = self.steps.iter().filter(|step| !step.held);
        missed.min_by(|a, b| a.asked_rps.total_cmp(&b.asked_rps))
    }

    /// The highest rate that held, below all that missed.
    fn highest_held(&self) -> Option<f64> {
        let limit = self.lowest_missed().map_or(f64::INFINITY, |step| step.asked_rps);
        let held = self.steps.iter().filter(|step| step.held).map(|step| step.asked_rps);
        held.filter(|rate| *rate < limit).max_by(f64::total_cmp)
    }

    /// The rate that held the limit whenever it was tried, which was twice at least.
    pub fn found(&self) -> Option<f64> {
        let held = self.highest_held()?;
        let times = self.steps.iter().filter(|step| step.asked_rps == held).count();
        (times > 1).then_some(held)
    }

    /// The next rate to try; none when it is found, or when too much was tried.
    pub fn next(&self) -> Option<f64> {
        if self.steps.len() >= MOST_STEPS || self.found().is_some() {
            return None;
        }
        let next = match (self.highest_held(), self.lowest_missed().map(|step| step.asked_rps)) {
            (None, None) => self.first,
            (Some(held), None) => 2.0 * held,
            (None, Some(missed)) => missed / 2.0,
            (Some(held), Some(missed)) if missed / held > RESOLUTION => (held * missed).sqrt(),
            (Some(held), Some(_)) => held,
        };
        Some(rounded(next)).filter(|rate| *rate >= self.lowest)
    }

    pub fn end(self, limit: Limit) -> Search {
        Search {
            percentile: limit.percentile,
            limit_us: limit.us,
            highest_rps: self.found(),
            limited_by: self.lowest_missed().map(suspicions).unwrap_or_default(),
            steps: self.steps,
        }
    }
}

/// Four significant digits, which are more than [`RESOLUTION`] tells apart.
fn rounded(rate: f64) -> f64 {
    let unit = 10f64.powf(rate.log10().floor() - 3.0);
    (rate / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { percentile: 99.0, us: 1000.0 };

    fn tried(rate: f64, held: bool, flags: &[&'static str], unsent: u64) -> Step {
        Step {
            asked_rps: rate,
            throughput_rps: rate,
            latency_us: 1.0,
            unsent,
            held,
            flags: flags.iter().map(|flag| (*flag).into()).collect(),
        }
    }

    /// A search from `first` on a server that holds the limit as `holds` says of rate and step.
    fn search(first: f64, holds: impl Fn(f64, usize) -> bool) -> Search {
        let mut search = RateSearch::new(first, LIMIT, 10.0);
        while let Some(rate) = search.next() {
            search.add(tried(rate, holds(rate, search.steps.len()), &[], 0));
        }
        search.end(LIMIT)
    }

    #[test]
    fn finds_the_edge_within_its_resolution_and_tries_it_twice() {
        for (first, edge) in [(1000.0, 50_000.0), (1000.0, 1000.0), (80_000.0, 50_000.0), (5e6, 30.0)] {
            let search = search(first, |rate, _| rate <= edge);
            let found = search.highest_rps.unwrap();
            assert!(found <= edge && found * RESOLUTION >= edge, "{found} of {edge}");
            let last = search.steps.last().unwrap();
            assert!(last.held && last.asked_rps == found);
            assert!(search.steps.len() < 30);
        }
    }

    #[test]
    fn what_does_not_hold_again_was_not_found() {
        // The 4th step holds by chance.
        let search = search(8000.0, |rate, step| rate <= 10_000.0 || step == 3);
        assert!(search.highest_rps.unwrap() <= 10_000.0, "{search:?}");
    }

    #[test]
    fn finds_nothing_where_nothing_holds_and_ends_where_all_does() {
        let nothing = search(1000.0, |_, _| false);
        assert_eq!((nothing.highest_rps, nothing.steps.last().unwrap().asked_rps < 20.0), (None, true));
        let all = search(1000.0, |_, _| true);
        assert_eq!((all.highest_rps, all.steps.len()), (None, MOST_STEPS));
    }

    #[test]
    fn says_when_the_driver_may_be_the_limit() {
        let limited = |flags: &[&'static str], unsent| {
            let mut search = RateSearch::new(1.0, LIMIT, 10.0);
            search.add(tried(1000.0, true, &["client_bound"], 0));
            search.add(tried(2000.0, false, flags, unsent));
            search.add(tried(4000.0, false, &["client_delayed"], 0));
            search.end(LIMIT).limited_by
        };
        assert_eq!(limited(&["client_bound", "unsteady"], 0), ["client_bound"]);
        assert_eq!(limited(&["slipped"], 0), ["slipped"]);
        assert_eq!(limited(&["slipped"], 7), [""; 0]);
    }
}
