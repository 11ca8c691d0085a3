//! When requests are due in an open loop: a schedule for each connection, made from seed and number alone.

use serde::{Deserialize, Serialize};

use crate::ramp::Ramp;
use generator::rng::Rng;
use text::checks::require;
use text::failure::Failure;

const HIGHEST_RATE: f64 = 1e8;

/// A usage failure unless `rate`, called `name`, is one.
pub fn check_rate(rate: f64, name: &str) -> Result<f64, Failure> {
    require(
        rate > 0.0 && rate <= HIGHEST_RATE,
        &format!("{name} cannot be {rate}"),
        "give requests per second above 0, at most 10^8",
    )?;
    Ok(rate)
}

const NS_PER_S: f64 = 1e9;

/// How the gaps between requests are distributed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalProcess {
    /// All the same; the connections take turns.
    #[default]
    Fixed,
    /// Exponential on each connection, so those of all connections together are exponential, too.
    Poisson,
    /// As in a recording; nobody can ask for it.
    #[serde(skip_deserializing)]
    Recorded,
}

impl ArrivalProcess {
    pub const ALL: [ArrivalProcess; 2] = [ArrivalProcess::Fixed, ArrivalProcess::Poisson];

    pub fn name(self) -> &'static str {
        match self {
            ArrivalProcess::Fixed => "fixed",
            ArrivalProcess::Poisson => "poisson",
            ArrivalProcess::Recorded => "recorded",
        }
    }
}

/// Requests that come whether or not the server has answered those before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrivals {
    /// Requests per second of all connections together; the highest rate of a ramp.
    pub rate: f64,
    pub process: ArrivalProcess,
    /// Each series has its own random gaps.
    pub series: u32,
    /// How the rate changes; none: it does not.
    pub ramp: Option<Ramp>,
}

/// Whose schedule it is.
#[derive(Debug, Clone, Copy)]
pub struct Participant {
    pub seed: u64,
    pub index: usize,
    /// All that share the rate.
    pub clients: usize,
    /// Requests that are due together.
    pub unit: usize,
}

/// The moments, ns on the monotonic clock, at which one connection should send.
pub struct Schedule {
    gaps: Gaps,
    begins_at: u64,
    ends_at: u64,
    due: u64,
}

enum Gaps {
    /// Every `step`-th of evenly spaced requests, `number` the next.
    Even {
        number: u64,
        step: u64,
        per_s: f64,
    },
    /// `at` is the next moment in ns after the beginning.
    Exponential {
        rng: Rng,
        at: f64,
        mean_ns: f64,
    },
    Ramped(Box<Ramped>),
}

/// The moments at which so many requests are due as a ramp says: those of an even rate of 1 request per s, rescaled.
struct Ramped {
    ramp: Ramp,
    turns: Turns,
}

/// Before a turn, so many requests are due.
enum Turns {
    Even { number: u64, step: u64, unit: f64 },
    Random { rng: Rng, before: f64, mean: f64 },
}

impl Schedule {
    /// Requests from `begins_at` on and before `ends_at`.
    pub fn new(arrivals: Arrivals, participant: Participant, begins_at: u64, ends_at: u64) -> Schedule {
        let Participant { seed, index, clients, unit } = participant;
        let (number, step, unit) = (index as u64, clients as u64, unit as f64);
        let per_s = arrivals.rate / unit;
        // The streams below 2^32 are those of the requests.
        let rng = || Rng::stream(seed, ((u64::from(arrivals.series) + 1) << 32) + number);
        let is_random = arrivals.process == ArrivalProcess::Poisson;
        let gaps = match (arrivals.ramp, is_random) {
            (None, false) => Gaps::Even { number, step, per_s },
            (None, true) => {
                Gaps::Exponential { rng: rng(), at: 0.0, mean_ns: NS_PER_S * clients as f64 / per_s }
            }
            (Some(ramp), false) => Gaps::ramped(ramp, Turns::Even { number, step, unit }),
            (Some(ramp), true) => {
                Gaps::ramped(ramp, Turns::Random { rng: rng(), before: 0.0, mean: unit * clients as f64 })
            }
        };
        let mut schedule = Schedule { gaps, begins_at, ends_at, due: 0 };
        schedule.take();
        schedule
    }

    /// When the next request is due; `u64::MAX` after the last.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }

    /// The moment at which the next request is due; then comes the one after it.
    #[inline]
    pub fn take(&mut self) -> u64 {
        let after = self.begins_at.saturating_add(self.gaps.next());
        let after = if after < self.ends_at { after } else { u64::MAX };
        std::mem::replace(&mut self.due, after)
    }

    /// Leave out what is due before `moment`.
    pub fn skip_to(&mut self, moment: u64) {
        while self.due < moment {
            self.take();
        }
    }

    /// How many moments are left.
    pub fn count(mut self) -> u64 {
        std::iter::from_fn(|| Some(self.take()).filter(|due| *due < u64::MAX)).count() as u64
    }
}

impl Gaps {
    fn ramped(ramp: Ramp, turns: Turns) -> Gaps {
        Gaps::Ramped(Box::new(Ramped { ramp, turns }))
    }

    /// The next moment, ns after the beginning.
    fn next(&mut self) -> u64 {
        match self {
            // Multiplied, not added up: the last moment is as exact as the first. Product and quotient are rounded
            // correctly, so request number rate x seconds is due at the end and not a ns before it.
            Gaps::Even { number, step, per_s } => {
                let at = *number as f64 * NS_PER_S / *per_s;
                *number += *step;
                at as u64
            }
            Gaps::Exponential { rng, at, mean_ns } => {
                *at -= (-rng.unit()).ln_1p() * *mean_ns;
                *at as u64
            }
            Gaps::Ramped(ramped) => ramped.next(),
        }
    }
}

impl Ramped {
    /// The next moment, ns after the beginning.
    fn next(&mut self) -> u64 {
        let due_before = match &mut self.turns {
            Turns::Even { number, step, unit } => {
                let before = *number as f64 * *unit;
                *number += *step;
                before
            }
            Turns::Random { rng, before, mean } => {
                *before -= (-rng.unit()).ln_1p() * *mean;
                *before
            }
        };
        (self.ramp.moment(due_before) * NS_PER_S) as u64
    }
}
