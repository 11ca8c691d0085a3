//! The ratio that the log ratios of neighbouring slices tell, with its interval: functions of numbers.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The part of the values that is left out at each end.
pub const TRIMMED: f64 = 0.2;
/// With fewer values their spread is unknown.
pub const FEWEST: usize = 10;
/// Two-sided 95%.
const TAIL: f64 = 0.025;

/// The centre of values, and how far its 95% interval reaches to either side; none with fewer than [`FEWEST`] values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub center: f64,
    pub reach: Option<f64>,
}

/// The places of the values that a 20% trimmed mean is made of, in the order of their values.
pub fn kept(values: &[f64]) -> Vec<usize> {
    kept_by(TRIMMED, values)
}

fn kept_by(part: f64, values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&left, &right| values[left].total_cmp(&values[right]));
    let cut = (values.len() as f64 * part) as usize;
    order[cut..values.len() - cut].to_vec()
}

/// The 20% trimmed mean of `values`, which are in the order of time. None without a value.
pub fn trimmed_mean(values: &[f64]) -> Option<Estimate> {
    trimmed_by(TRIMMED, values)
}

/// The mean of `values` without the smallest and the largest of them, `part` (below one half) of all at each end.
///
/// The interval is that of Tukey and McLaughlin (1963): Student's t with the winsorized variance. Neighbours may depend
/// on each other, so the variance is the larger one of that of independent values and that of overlapping batch means
/// (Meketon and Schmeiser 1984) of the winsorized values.
pub fn trimmed_by(part: f64, values: &[f64]) -> Option<Estimate> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let kept: Vec<f64> = kept_by(part, values).into_iter().map(|at| values[at]).collect();
    let center = mean(&kept);
    if count < FEWEST {
        return Some(Estimate { center, reach: None });
    }
    let winsorized: Vec<f64> =
        values.iter().map(|value| value.clamp(kept[0], kept[kept.len() - 1])).collect();
    let share_kept = kept.len() as f64 / count as f64;
    let independent = Spread::of_independent(&winsorized);
    let dependent = Spread::of_batches(&winsorized);
    let reach = |spread: Spread, freedom: f64| student(freedom) * spread.variance.sqrt() / share_kept;
    let as_independent = reach(independent, (kept.len() - 1) as f64);
    let as_dependent = match dependent.variance > independent.variance {
        true => reach(dependent, dependent.freedom),
        false => 0.0,
    };
    Some(Estimate { center, reach: Some(as_independent.max(as_dependent)) })
}

/// The variance of a mean, with its degrees of freedom.
#[derive(Clone, Copy)]
struct Spread {
    variance: f64,
    freedom: f64,
}

impl Spread {
    fn of_independent(values: &[f64]) -> Spread {
        let (n, mean) = (values.len() as f64, mean(values));
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Spread { variance: squares / (n - 1.0) / n, freedom: n - 1.0 }
    }

    fn of_batches(values: &[f64]) -> Spread {
        let mean = mean(values);
        let length = (values.len() as f64).sqrt().round() as usize;
        let (n, b) = (values.len() as f64, length as f64);
        let deviations = values.windows(length).map(|batch| batch.iter().sum::<f64>() / b - mean);
        let squares: f64 = deviations.map(|deviation| deviation * deviation).sum();
        Spread { variance: squares * b / ((n - b + 1.0) * (n - b)), freedom: 1.5 * (n / b - 1.0) }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The quantile of 97.5% of Student's distribution.
fn student(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - TAIL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use generator::rng::Rng;

    /// scipy 1.17: `x = np.array([(i * 37) % 101 for i in range(40)]) / 100`; `m = stats.trim_mean(x, 0.2)`;
    /// `w = stats.mstats.winsorize(x, [0.2, 0.2])`; `se = w.std(ddof=1) / 0.6 / 40**0.5`; `se * stats.t.ppf(0.975, 23)`.
    #[test]
    fn the_interval_is_that_of_the_winsorized_variance() {
        let values: Vec<f64> = (0..40).map(|i| f64::from((i * 37) % 101) / 100.0).collect();
        let found = trimmed_mean(&values).unwrap();
        assert!((found.center - CENTER).abs() < 1e-9, "{found:?}");
        assert!((found.reach.unwrap() - REACH).abs() < 1e-9, "{found:?}");
    }

    const CENTER: f64 = 0.495_833_333_333_333_3;
    const REACH: f64 = 0.129_644_235_076_461_92;

    #[test]
    fn few_values_have_a_centre_only_and_none_have_none() {
        assert_eq!(trimmed_mean(&[]), None);
        assert_eq!(trimmed_mean(&[1.0, 3.0]), Some(Estimate { center: 2.0, reach: None }));
        assert_eq!(trimmed_mean(&[0.0; 10]).unwrap().reach, Some(0.0));
    }

    #[test]
    fn bursts_move_it_little_wherever_they_fall() {
        let mut values: Vec<f64> = (0..30).map(|at| 0.01 * f64::from(at % 3 - 1)).collect();
        let quiet = trimmed_mean(&values).unwrap();
        values[3..8].fill(0.8);
        let hit = trimmed_mean(&values).unwrap();
        assert!((hit.center - quiet.center).abs() < 0.005 && hit.reach.unwrap() < 0.02, "{hit:?}");
    }

    /// The share of intervals that hold the truth, 0, in 2000 samples of 30 values that `draw` makes of the one before.
    fn coverage(seed: u64, mut draw: impl FnMut(&mut Rng, f64) -> f64) -> f64 {
        let mut rng = Rng::stream(seed, 0);
        let holds = (0..2000).filter(|_| {
            let mut last = draw(&mut rng, 0.0);
            let values: Vec<f64> = (0..30)
                .map(|_| {
                    last = draw(&mut rng, last);
                    last
                })
                .collect();
            let found = trimmed_mean(&values).unwrap();
            found.center.abs() <= found.reach.unwrap()
        });
        holds.count() as f64 / 2000.0
    }

    /// A sum of twelve uniform numbers is nearly normal.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn ninety_five_of_a_hundred_intervals_hold_the_truth() {
        // The seeds are fixed, so the results are, too.
        let independent = coverage(1, |rng, _| normal(rng));
        assert!((0.94..=0.98).contains(&independent), "{independent}");
        let with_bursts = coverage(2, |rng, _| {
            let burst = if rng.below(10) == 0 { 20.0 * (rng.unit() - 0.5) } else { 0.0 };
            normal(rng) + burst
        });
        assert!((0.94..=0.99).contains(&with_bursts), "{with_bursts}");
        let dependent = coverage(3, |rng, last| 0.3 * last + normal(rng));
        assert!((0.88..=0.98).contains(&dependent), "{dependent}");
    }
}
