//! Warm-up until the load is steady: it goes on until neither the rate nor the server's CPU time per request changes
//! any more.

use std::time::Duration;

use engine::job::Job;
use engine::outcome::Outcome;
use engine::progress::Watcher;
use engine::stage::Stage;
use engine::steadiness::{SETTLED_SLICES, SETTLING_SLICES, change, is_settled};
use engine::total::Total;
use report::warmup::WarmUp;
use text::failure::Failure;
use text::units::{ns, per, round, seconds};
use workload::phase::Phase;
use workload::traffic::Traffic;

/// After a check that found the load unsteady, it runs for so many more slices.
const MORE_SLICES: u64 = 5;

/// A warm-up that ends by itself.
struct SteadinessSearch {
    slice_ns: u64,
    /// Slices that are looked at, at least and at most.
    least: u64,
    most: u64,
    /// Replies per slice so far, and the server's CPU time per reply, ns.
    rates: Vec<f64>,
    costs: Vec<f64>,
}

impl SteadinessSearch {
    fn new(least: Duration, most: Duration, slice_ns: u64) -> SteadinessSearch {
        let most = (ns(most) / slice_ns).saturating_sub(SETTLING_SLICES);
        let least_slices = ns(least).div_ceil(slice_ns).saturating_sub(SETTLING_SLICES);
        SteadinessSearch {
            slice_ns,
            least: least_slices.max(SETTLED_SLICES as u64).min(most),
            most,
            rates: Vec::new(),
            costs: Vec::new(),
        }
    }

    fn add(&mut self, outcome: &Outcome) {
        let total = Total::of(outcome);
        let server_ns = total.server_ns_per_slice();
        self.costs
            .extend(server_ns.iter().zip(&total.slices).map(|(ns, count)| per(*ns as f64, *count as f64)));
        self.rates.extend(total.slices.iter().map(|count| *count as f64));
    }

    fn is_steady(&self) -> bool {
        [&self.rates, &self.costs].into_iter().all(|series| is_settled(latest(series)))
    }

    /// How many more slices are wanted; none when it is over.
    fn next_stretch(&self) -> Option<u64> {
        let had = self.rates.len() as u64;
        match had {
            0 => Some(self.least),
            _ if self.is_steady() => None,
            _ => Some((self.most - had).min(MORE_SLICES)).filter(|more| *more > 0),
        }
    }

    fn end(&self) -> WarmUp {
        let slices = self.rates.len() as u64;
        let change_of = |series: &[f64]| change(latest(series)).map(|change| round(change, 4));
        WarmUp {
            seconds: round(seconds((slices + SETTLING_SLICES) * self.slice_ns), 6),
            slices,
            steady: Some(self.is_steady()),
            rate_change: change_of(&self.rates),
            server_cpu_change: change_of(&self.costs),
        }
    }
}

fn latest(series: &[f64]) -> &[f64] {
    &series[series.len().saturating_sub(SETTLED_SLICES)..]
}

/// Warm up as `phase` says and run the stages that `measured` makes of the warm-up that is left before the window.
///
/// `stretch` is the load for so many ns, as the n-th of its kind.
pub fn run(
    phase: &Phase,
    (traffic, job): (&Traffic, &Job),
    stretch: impl Fn(u64, u32) -> Stage,
    measured: impl Fn(Duration) -> Vec<Stage>,
    watcher: Watcher,
) -> Result<(Outcome, WarmUp), Failure> {
    let Some(most) = phase.warmup_most else {
        return Ok((traffic.run(job, &measured(phase.warmup), watcher)?, WarmUp::fixed(phase.warmup)));
    };
    let mut search = SteadinessSearch::new(phase.warmup, most, job.slice_ns);
    let mut left = measured(Duration::from_nanos(SETTLING_SLICES * job.slice_ns)).into_iter();
    let warm = |is_warming| job.scoreboard.iter().for_each(|scoreboard| scoreboard.warm(is_warming));
    warm(true);
    let (mut number, mut over, mut last, mut cut) = (0, false, None, None);
    let mut next_stage = |outcome: Option<Outcome>| {
        if let (false, Some(outcome)) = (over, &outcome) {
            cut = outcome.cut.clone();
            search.add(outcome);
        }
        if let (false, Some(slices)) = (over, search.next_stretch()) {
            number += 1;
            return Some(stretch(slices * job.slice_ns, number));
        }
        over = true;
        warm(false);
        last = outcome;
        left.next()
    };
    traffic.run_from(job, &mut next_stage, watcher)?;
    match cut {
        Some(cut) => Err(cut.failure),
        None => Ok((last.expect("there is a stage"), search.end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn search(least_ms: u64, most_ms: u64) -> SteadinessSearch {
        SteadinessSearch::new(Duration::from_millis(least_ms), Duration::from_millis(most_ms), 100 * MS)
    }

    #[test]
    fn a_steady_load_ends_it_after_the_least_time() {
        let mut search = search(2000, 9000);
        assert_eq!(search.next_stretch(), Some(19));
        search.rates = vec![1000.0; 19];
        assert_eq!(search.next_stretch(), None);
        let end = search.end();
        assert_eq!((end.seconds, end.slices, end.steady), (2.0, 19, Some(true)));
    }

    #[test]
    fn no_least_time_is_shorter_than_what_is_looked_at() {
        assert_eq!(search(0, 9000).next_stretch(), Some(10));
    }

    #[test]
    fn a_load_that_climbs_goes_on_to_the_cap() {
        let mut search = search(500, 2000);
        let mut had = 0;
        while let Some(more) = search.next_stretch() {
            had += more;
            search.rates = (0..had).map(|slice| 1000.0 + 50.0 * slice as f64).collect();
        }
        let end = search.end();
        assert_eq!((had, end.seconds, end.steady), (19, 2.0, Some(false)));
    }

    #[test]
    fn a_climb_that_rests_ends_it() {
        let mut search = search(500, 9000);
        let mut had = 0;
        while let Some(more) = search.next_stretch() {
            had += more;
            search.rates = (0..had).map(|slice| 1000.0 + 50.0 * slice.min(12) as f64).collect();
        }
        assert_eq!((had, search.end().steady), (25, Some(true)));
    }

    #[test]
    fn the_servers_cost_has_to_rest_too() {
        let mut search = search(500, 9000);
        search.rates = vec![1000.0; 10];
        search.costs = (0..10).map(|slice| 3000.0 - 100.0 * f64::from(slice)).collect();
        assert_eq!(search.next_stretch(), Some(5));
        assert_eq!(search.end().rate_change, Some(0.0));
        assert!(search.end().server_cpu_change.unwrap() < -0.3);
    }
}
