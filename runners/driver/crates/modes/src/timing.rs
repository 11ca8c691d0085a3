//! Schedules of clients that send at a rate.

use engine::schedule::{ArrivalProcess, Arrivals, Participant, Schedule};
use engine::stage::Span;
use machine::clock;

/// The schedule of client `index` of `clients`, which take turns and send `rate` times per second together.
pub fn schedule(rate: f64, index: usize, clients: usize, span: &Span) -> Schedule {
    let arrivals = Arrivals { rate, process: ArrivalProcess::Fixed, series: 0, ramp: None };
    Schedule::new(arrivals, Participant { seed: 0, index, clients, unit: 1 }, clock::now(), span.ends_at)
}

/// The next moment of `schedule` if it is not after `now`.
pub fn due(schedule: &mut Schedule, now: u64) -> Option<u64> {
    (schedule.due() <= now).then(|| schedule.take())
}
