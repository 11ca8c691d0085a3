//! When those that do something at a rate are to do it.

use engine::schedule::{Arrivals, Law, Schedule, Seat};
use engine::stage::Span;
use machine::clock;

/// When taker `index` of `takers`, which do something `rate` times per second together in turn, is to do it.
pub fn schedule(rate: f64, index: usize, takers: usize, span: &Span) -> Schedule {
    let arrivals = Arrivals { rate, law: Law::Fixed, series: 0 };
    Schedule::new(arrivals, Seat { seed: 0, index, clients: takers, unit: 1 }, clock::now(), span.ends_at)
}

/// The next moment of `schedule` if it is not after `now`.
pub fn due(schedule: &mut Schedule, now: u64) -> Option<u64> {
    (schedule.due() <= now).then(|| schedule.take())
}
