//! The schedules of an open loop, moment by moment: deterministic, so no test here depends on the machine.

use engine::ramp::{Ramp, Shape};
use engine::schedule::ArrivalProcess;
use engine::schedule::Arrivals;
use engine::schedule::Participant;
use engine::schedule::Schedule;

const S: u64 = 1_000_000_000;
const BEGIN: u64 = 7 * S;

fn moments(arrivals: Arrivals, seat: Participant, seconds: u64) -> Vec<u64> {
    let mut schedule = Schedule::new(arrivals, seat, BEGIN, BEGIN + seconds * S);
    std::iter::from_fn(|| Some(schedule.take()).filter(|due| *due < u64::MAX)).collect()
}

/// The moments of all `clients` connections, in order.
fn all(arrivals: Arrivals, clients: usize, unit: usize, seconds: u64) -> Vec<u64> {
    let seat = |index| Participant { seed: 1, index, clients, unit };
    let mut all: Vec<u64> = (0..clients).flat_map(|index| moments(arrivals, seat(index), seconds)).collect();
    all.sort_unstable();
    all
}

fn fixed(rate: f64) -> Arrivals {
    Arrivals { rate, process: ArrivalProcess::Fixed, series: 0, ramp: None }
}

fn poisson(rate: f64) -> Arrivals {
    Arrivals { rate, process: ArrivalProcess::Poisson, series: 0, ramp: None }
}

#[test]
fn a_fixed_rate_is_exact_and_even_over_all_connections() {
    for rate in [1, 3, 1_000, 3_000, 7_777, 99_991, 1_000_000] {
        for clients in [1, 7, 50] {
            let moments = all(fixed(rate as f64), clients, 1, 3);
            assert_eq!(moments.len() as u64, rate * 3, "{rate}/s on {clients}");
            for (number, due) in (0..).zip(&moments) {
                let exact = BEGIN + (u128::from(S) * number / u128::from(rate)) as u64;
                assert!(due.abs_diff(exact) <= 1, "{rate}/s on {clients}: {number} at {due}, not {exact}");
            }
        }
    }
}

#[test]
fn the_rate_of_a_sequence_counts_its_requests() {
    assert_eq!(all(fixed(3000.0), 4, 3, 2).len(), 2000);
    let sent = all(poisson(30_000.0), 4, 3, 2).len();
    // 20000 expected; four standard deviations of a Poisson count.
    assert!(sent.abs_diff(20_000) < 4 * 142, "{sent}");
}

#[test]
fn a_schedule_depends_on_seed_connection_and_series_alone() {
    let seat = Participant { seed: 1, index: 3, clients: 8, unit: 1 };
    let of = |arrivals, seat| moments(arrivals, seat, 1);
    let first = of(poisson(8000.0), seat);
    assert_eq!(first, of(poisson(8000.0), seat));
    assert_ne!(first, of(poisson(8000.0), Participant { seed: 2, ..seat }));
    assert_ne!(first, of(poisson(8000.0), Participant { index: 4, ..seat }));
    assert_ne!(first, of(Arrivals { series: 1, ..poisson(8000.0) }, seat));
    let (mut schedule, end) = (Schedule::new(poisson(8000.0), seat, BEGIN, BEGIN + S), first.len());
    schedule.take();
    assert_eq!(schedule.due(), first[1]);
    assert_eq!(schedule.count(), end as u64 - 1);
}

/// The statistic of Kolmogorov and Smirnov: how far the gaps are from exponential ones of `mean_ns`.
fn distance(moments: &[u64], mean_ns: f64) -> f64 {
    let mut gaps: Vec<u64> = moments.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let count = gaps.len() as f64;
    let gap = |(rank, ns): (usize, &u64)| {
        let exact = 1.0 - (-(*ns as f64) / mean_ns).exp();
        (exact - rank as f64 / count).max((rank + 1) as f64 / count - exact)
    };
    gaps.iter().enumerate().map(gap).fold(0.0, f64::max)
}

/// `scipy.stats.kstwo.isf(0.01, 20000)` of scipy 1.17.1.
const LIMIT_OF_20000: f64 = 0.011_500_6;

#[test]
fn gaps_of_chance_are_exponential_on_each_connection_and_on_all_together() {
    let one = moments(poisson(5000.0), Participant { seed: 1, index: 2, clients: 5, unit: 1 }, 30);
    for (moments, mean_ns) in [(one, 1e6), (all(poisson(10_000.0), 50, 1, 3), 1e5)] {
        let measured = distance(&moments[..20_001], mean_ns);
        assert!(measured < LIMIT_OF_20000, "{measured}");
    }
    // The test would notice: a fixed rate is far off.
    assert!(distance(&all(fixed(10_000.0), 50, 1, 3)[..20_001], 1e5) > 0.5);
}

#[test]
fn gaps_of_chance_do_not_follow_from_each_other() {
    let moments = all(poisson(10_000.0), 50, 1, 3);
    let gaps: Vec<f64> = moments.windows(2).map(|pair| (pair[1] - pair[0]) as f64 - 1e5).collect();
    let product = |lag: usize| gaps.iter().zip(&gaps[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let bound = 4.0 / (gaps.len() as f64).sqrt();
    for lag in [1, 2, 7, 50] {
        assert!((product(lag) / product(0)).abs() < bound, "lag {lag}");
    }
}

const SHAPES: [Shape; 5] =
    [Shape::Line, Shape::Steps(7), Shape::Sine(3), Shape::Burst { periods: 4, share: 0.15 }, Shape::Steps(2)];

fn ramp(from: f64, to: f64, shape: Shape) -> Ramp {
    Ramp { from, to, shape, before_s: 0.5, window_s: 6.0 }
}

fn ramped(ramp: Ramp, process: ArrivalProcess) -> Arrivals {
    Arrivals { rate: ramp.from.max(ramp.to), process, series: 0, ramp: Some(ramp) }
}

/// The integral of the rate up to each tenth of `seconds`, by summing it in small slices: nothing of it is the schedule's own.
fn integrals(ramp: &Ramp, seconds: u32) -> Vec<f64> {
    let width = 1.0 / 20_000.0;
    let rate = |at: f64| {
        let (share, rise) = ((at - ramp.before_s) / ramp.window_s, ramp.to - ramp.from);
        match ramp.shape {
            _ if share < 0.0 => ramp.from,
            Shape::Line => ramp.from + rise * share,
            Shape::Steps(steps) => {
                ramp.from + rise * (share * f64::from(steps)).floor() / f64::from(steps - 1)
            }
            Shape::Sine(waves) => {
                ramp.from + rise * (1.0 - (std::f64::consts::TAU * f64::from(waves) * share).cos()) / 2.0
            }
            Shape::Burst { periods, share: burst } => {
                let place = (share * f64::from(periods)).fract();
                if place < 1.0 - burst { ramp.from } else { ramp.to }
            }
        }
    };
    let mut sum = 0.0;
    let mut tenth = |tenth: u32| {
        sum += (0..2000)
            .map(|slice| rate(f64::from(tenth) / 10.0 + (f64::from(slice) + 0.5) * width) * width)
            .sum::<f64>();
        sum
    };
    (0..10 * seconds).map(&mut tenth).collect()
}

#[test]
fn what_is_due_on_a_ramp_is_the_integral_of_its_rate() {
    for shape in SHAPES {
        for (from, to) in [(1000.0, 5000.0), (5000.0, 1000.0), (0.5, 3000.0), (2000.0, 2000.1)] {
            let ramp = ramp(from, to, shape);
            let integrals = integrals(&ramp, 6);
            for clients in [1, 7] {
                let moments = all(ramped(ramp, ArrivalProcess::Fixed), clients, 1, 6);
                assert!(moments.is_sorted());
                for (tenth, exact) in (1..).zip(&integrals) {
                    let moment = f64::from(tenth) / 10.0;
                    let due = moments.partition_point(|at| (*at - BEGIN) as f64 / 1e9 < moment) as f64;
                    // The sum has an error of its own where the rate jumps: a width of the slices.
                    let error = 1.01 + to.max(from) / 5_000.0;
                    assert!((due - exact).abs() < error, "{ramp:?} at {moment}: {due}, not {exact}");
                    assert!((ramp.due_before(moment) - exact).abs() < error, "{ramp:?} at {moment}");
                }
            }
        }
    }
}

#[test]
fn the_moments_of_a_ramp_are_the_inverse_of_what_is_due() {
    for shape in SHAPES {
        for (from, to) in [(1000.0, 50_000.0), (0.01, 1e8), (1e8, 0.01), (300.0, 300.0)] {
            let ramp = ramp(from, to, shape);
            let all = ramp.due_before(6.5);
            let mut before = 0.0;
            for part in 0..=1000 {
                let count = all * f64::from(part) / 1000.0;
                let moment = ramp.moment(count);
                assert!(moment >= before, "{ramp:?}: {count} at {moment}");
                before = moment;
                // A ns more or less may be worth that many requests.
                let allowed = 1e-9 * count + 2e-9 * from.max(to);
                assert!((ramp.due_before(moment) - count).abs() <= allowed, "{ramp:?}: {count} at {moment}");
            }
            assert!(ramp.moment(all + 5.0) >= 6.5);
        }
    }
}

#[test]
fn random_arrivals_follow_a_ramp_and_units_count_once() {
    let ramp = ramp(2000.0, 20_000.0, Shape::Line);
    let sent = all(ramped(ramp, ArrivalProcess::Poisson), 5, 1, 6);
    for second in 1..=6 {
        let due = sent.partition_point(|at| *at - BEGIN < second * S) as f64;
        let exact = ramp.due_before(second as f64);
        // Four standard deviations of a Poisson count.
        assert!((due - exact).abs() < 4.0 * exact.sqrt(), "{due}, not {exact}");
    }
    // The rescaled times of a Poisson process are one of rate 1.
    let counts: Vec<u64> =
        sent.iter().map(|at| (ramp.due_before((at - BEGIN) as f64 / 1e9) * 1e6) as u64).collect();
    assert!(distance(&counts[..20_001], 1e6) < LIMIT_OF_20000);
    let units = all(ramped(ramp, ArrivalProcess::Fixed), 4, 3, 6).len() as f64;
    assert!((units - ramp.due_before(6.0) / 3.0).abs() <= 1.0, "{units}");
}
