//! Reasons not to trust a result, or a part of it. A flag marks; it never changes a number.

use std::borrow::Cow;

use engine::histogram::Histogram;
use engine::job::Job;
use engine::outcome::Outcome;
use engine::steadiness::is_unsteady;
use engine::total::Total;
use machine::environment;

/// A driver thread that uses more than this share of its core may be the bottleneck.
const BOUND_ABOVE: f64 = 0.85;
/// A driver thread that waited for its core for more than this share of the window was late for replies, too.
const DELAYED_ABOVE: f64 = 0.01;
/// 1% of the requests of a schedule may be sent this much too late, ns ...
const SLIP_NS: f64 = 100_000.0;
/// ... or by this share of the mean gap, if that is more.
const SLIP_OF_GAP: f64 = 0.05;
/// Clocks that run at one rate whatever the frequency of the CPU, and that are read without a system call.
const INVARIANT: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];
pub const CLIENT_BOUND: &str = "client_bound";
pub const CLIENT_DELAYED: &str = "client_delayed";
pub const SLIPPED: &str = "slipped";
/// The window ended before its time.
pub const CUT_SHORT: &str = "cut_short";

/// The flags that are raised for `total` of `job`, in the order of README.md.
pub fn of(total: &Total, job: &Job, outcome: &Outcome) -> Vec<Cow<'static, str>> {
    let arrivals = outcome.span.arrivals;
    let is_ramp = outcome.span.clients.is_some() || arrivals.is_some_and(|arrivals| arrivals.ramp.is_some());
    let raised = [
        (CLIENT_BOUND, total.busiest_thread > BOUND_ABOVE),
        (CLIENT_DELAYED, total.most_delayed > DELAYED_ABOVE),
        (SLIPPED, arrivals.is_some_and(|arrivals| has_slipped(&total.slip, total.unsent, arrivals.rate))),
        ("unsteady", !is_ramp && is_unsteady(whole_slices(&total.slices, total.window_ns, job.slice_ns))),
        (CUT_SHORT, outcome.cut.is_some()),
        ("errors", total.inside.errors > 0),
        ("clock", environment::clocksource().is_some_and(|clock| !INVARIANT.contains(&clock.as_str()))),
    ];
    raised.into_iter().filter(|(_, raised)| *raised).map(|(flag, _)| flag.into()).collect()
}

fn has_slipped(slip: &Histogram, unsent: u64, rate: f64) -> bool {
    unsent > 0 || slip.quantile(0.99) as f64 > SLIP_NS.max(SLIP_OF_GAP * 1e9 / rate)
}

/// The slices without a last one that is shorter than the others.
fn whole_slices(slices: &[u64], window_ns: u64, slice_ns: u64) -> &[u64] {
    let whole = (window_ns / slice_ns) as usize;
    &slices[..slices.len().min(whole)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_slips_above_its_limit_only() {
        let has_slipped = |late_ns, unsent, rate| {
            let mut slip = Histogram::default();
            slip.record(late_ns, 100);
            has_slipped(&slip, unsent, rate)
        };
        assert!(!has_slipped(90_000, 0, 1e6));
        assert!(has_slipped(110_000, 0, 1e6));
        assert!(!has_slipped(4_900_000, 0, 10.0));
        assert!(has_slipped(5_100_000, 0, 10.0));
        assert!(has_slipped(0, 1, 10.0));
    }

    #[test]
    fn a_short_last_slice_is_not_judged() {
        assert_eq!(whole_slices(&[10, 10, 4], 240, 100), [10, 10]);
        assert_eq!(whole_slices(&[10, 10], 200, 100), [10, 10]);
        assert_eq!(whole_slices(&[3], 30, 100), [0; 0]);
    }
}
