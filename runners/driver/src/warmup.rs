//! Warm-up until the load is steady: stretches of it are looked at until neither the rate nor the server's CPU time per
//! request climbs, falls or jumps any more.

use std::time::Duration;

use serde::Serialize;

use crate::crew::{Outcome, Watcher};
use crate::document::{Total, per, round, seconds};
use crate::failure::Failure;
use crate::job::Job;
use crate::plan::Phase;
use crate::session::ns;
use crate::stage::Stage;
use crate::steadiness::{SETTLED_SLICES, change, is_settled};
use crate::workload::Speech;

pub const NO_STEADY_STATE: &str = "no_steady_state";

/// After a look that found no rest, so many more slices are waited for.
const MORE_SLICES: u64 = 5;
/// Connections are idle for a moment between the last look and the window: the load runs a slice before it counts.
const SETTLING_SLICES: u64 = 1;

/// The fewest slices that a warm-up which ends by itself may be allowed to take.
pub const FEWEST_SLICES: u64 = SETTLED_SLICES as u64 + SETTLING_SLICES;

/// What went before the window, as documents tell it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WarmUp {
    pub seconds: f64,
    /// Slices that were looked at; 0 when the time was fixed.
    pub slices: u64,
    /// Null when the time was fixed.
    pub steady: Option<bool>,
    /// Of the last ten slices, along the line fitted to them.
    pub rate_change: Option<f64>,
    pub server_cpu_change: Option<f64>,
}

impl WarmUp {
    /// One of a fixed time.
    pub fn fixed(time: Duration) -> WarmUp {
        WarmUp {
            seconds: time.as_secs_f64(),
            slices: 0,
            steady: None,
            rate_change: None,
            server_cpu_change: None,
        }
    }
}

/// A warm-up that ends by itself.
struct Search {
    slice_ns: u64,
    /// Slices that are looked at, at least and at most.
    least: u64,
    most: u64,
    /// Replies per slice so far, and the server's CPU time per reply, ns.
    rates: Vec<f64>,
    costs: Vec<f64>,
}

impl Search {
    fn new(least: Duration, most: Duration, slice_ns: u64) -> Search {
        let most = (ns(most) / slice_ns).saturating_sub(SETTLING_SLICES);
        let asked = ns(least).div_ceil(slice_ns).saturating_sub(SETTLING_SLICES);
        Search {
            slice_ns,
            least: asked.max(SETTLED_SLICES as u64).min(most),
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
    fn wanted(&self) -> Option<u64> {
        let had = self.rates.len() as u64;
        match had {
            0 => Some(self.least),
            _ if self.is_steady() => None,
            _ => Some((self.most - had).min(MORE_SLICES)).filter(|more| *more > 0),
        }
    }

    fn end(&self) -> WarmUp {
        let slices = self.rates.len() as u64;
        let told = |series: &[f64]| change(latest(series)).map(|change| round(change, 4));
        WarmUp {
            seconds: round(seconds((slices + SETTLING_SLICES) * self.slice_ns), 6),
            slices,
            steady: Some(self.is_steady()),
            rate_change: told(&self.rates),
            server_cpu_change: told(&self.costs),
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
    (speech, job): (&Speech, &Job),
    stretch: impl Fn(u64, u32) -> Stage,
    measured: impl Fn(Duration) -> Vec<Stage>,
    watcher: Watcher,
) -> Result<(Outcome, WarmUp), Failure> {
    let Some(most) = phase.warmup_most else {
        return Ok((speech.run(job, &measured(phase.warmup), watcher)?, WarmUp::fixed(phase.warmup)));
    };
    let mut search = Search::new(phase.warmup, most, job.slice_ns);
    let mut left = measured(Duration::from_nanos(SETTLING_SLICES * job.slice_ns)).into_iter();
    let (mut number, mut over, mut last) = (0, false, None);
    let mut director = |outcome: Option<Outcome>| {
        if let (false, Some(outcome)) = (over, &outcome) {
            search.add(outcome);
        }
        if let (false, Some(slices)) = (over, search.wanted()) {
            number += 1;
            return Some(stretch(slices * job.slice_ns, number));
        }
        over = true;
        last = outcome;
        left.next()
    };
    speech.direct(job, &mut director, watcher)?;
    Ok((last.expect("there is a stage"), search.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn search(least_ms: u64, most_ms: u64) -> Search {
        Search::new(Duration::from_millis(least_ms), Duration::from_millis(most_ms), 100 * MS)
    }

    #[test]
    fn a_steady_load_ends_it_after_the_least_time() {
        let mut search = search(2000, 9000);
        assert_eq!(search.wanted(), Some(19));
        search.rates = vec![1000.0; 19];
        assert_eq!(search.wanted(), None);
        let end = search.end();
        assert_eq!((end.seconds, end.slices, end.steady), (2.0, 19, Some(true)));
    }

    #[test]
    fn no_least_time_is_shorter_than_what_is_looked_at() {
        assert_eq!(search(0, 9000).wanted(), Some(10));
    }

    #[test]
    fn a_load_that_climbs_goes_on_to_the_cap() {
        let mut search = search(500, 2000);
        let mut had = 0;
        while let Some(more) = search.wanted() {
            had += more;
            search.rates = (0..had).map(|slice| 1000.0 + 50.0 * slice as f64).collect();
        }
        let end = search.end();
        assert_eq!((had, end.seconds, end.steady), (19, 2.0, Some(false)));
    }

    #[test]
    fn the_servers_cost_has_to_rest_too() {
        let mut search = search(500, 9000);
        search.rates = vec![1000.0; 10];
        search.costs = (0..10).map(|slice| 3000.0 - 100.0 * f64::from(slice)).collect();
        assert_eq!(search.wanted(), Some(5));
        assert_eq!(search.end().rate_change, Some(0.0));
        assert!(search.end().server_cpu_change.unwrap() < -0.3);
    }
}
