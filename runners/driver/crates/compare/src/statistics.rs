//! Intervals for ratios, as functions of numbers. All are 95% intervals, on the logarithm of what is compared.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Two-sided 95%.
const TAIL: f64 = 0.025;
const Z_TAIL: f64 = 1.959_963_984_540_054;
/// The standard normal quantile of 80%: a difference that large is seen four times in five.
const Z_POWER: f64 = 0.841_621_233_572_914_3;
/// With fewer slices their variance is unknown.
pub const FEWEST_SLICES: usize = 10;
/// Ranks of a percentile with fewer expected values beyond it are counted exactly.
const EXACT_BELOW: f64 = 500.0;

/// The logarithm of an estimated value, with the variance of its error and the degrees of freedom of that variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub log: f64,
    pub variance: f64,
    pub freedom: f64,
}

/// A ratio, the ends of its interval where there are such, and the smallest change that would have been seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    pub ratio: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// As a part of 1: this much would have been seen in four of five repetitions.
    pub detectable: Option<f64>,
}

/// The sum of `amounts` over the sum of `counts` (slices of one run), which may depend on their neighbours.
///
/// The variance is that of overlapping batch means (Meketon and Schmeiser 1984), which is also what a moving-block
/// bootstrap of the mean converges to (Künsch 1989); the ratio is linearised. None below 10 slices, or without a
/// positive sum of both.
pub fn of_slices(amounts: &[f64], counts: &[f64]) -> Option<Estimate> {
    let slices = amounts.len().min(counts.len());
    let (amount, count) = (amounts.iter().sum::<f64>(), counts.iter().sum::<f64>());
    if slices < FEWEST_SLICES || amount <= 0.0 || count <= 0.0 {
        return None;
    }
    let value = amount / count;
    let mean = amount / slices as f64;
    let deviations: Vec<f64> = amounts.iter().zip(counts).map(|(a, c)| (a - value * c) / mean).collect();
    let batch = (slices as f64).sqrt().round() as usize;
    let squares: f64 =
        deviations.windows(batch).map(|part| (part.iter().sum::<f64>() / batch as f64).powi(2)).sum();
    let (n, b) = (slices as f64, batch as f64);
    Some(Estimate {
        log: value.ln(),
        variance: squares * b / ((n - b + 1.0) * (n - b)),
        freedom: 1.5 * (n / b - 1.0),
    })
}

/// The geometric mean of `values`, one per run. None below two runs, or when a value is not positive.
pub fn of_runs(values: &[f64]) -> Option<Estimate> {
    if values.len() < 2 || values.iter().any(|value| value.is_nan() || *value <= 0.0) {
        return None;
    }
    let n = values.len() as f64;
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let mean = logs.iter().sum::<f64>() / n;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    Some(Estimate { log: mean, variance: squares / (n - 1.0) / n, freedom: n - 1.0 })
}

/// `new` over `base`, with Welch's interval (1947).
pub fn ratio(base: Estimate, new: Estimate) -> Ratio {
    let variance = base.variance + new.variance;
    let parts = base.variance.powi(2) / base.freedom + new.variance.powi(2) / new.freedom;
    // Values that never vary have no degrees of freedom either.
    let t = if parts > 0.0 { student(variance.powi(2) / parts) } else { Z_TAIL };
    let (log, error) = (new.log - base.log, variance.sqrt());
    Ratio {
        ratio: log.exp(),
        low: Some((log - t * error).exp()),
        high: Some((log + t * error).exp()),
        detectable: Some(((t + Z_POWER) * error).exp_m1()),
    }
}

/// The quantile of 97.5% of Student's distribution.
fn student(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - TAIL))
}

/// A value with the ends of its interval; none where the values do not reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// `new` over `base` from intervals that need not be symmetric: MOVER (Zou and Donner 2008), on logarithms.
pub fn ratio_of_bounded(base: Bounded, new: Bounded) -> Ratio {
    let log = (new.value / base.value).ln();
    let reach = |one: Option<f64>, other: Option<f64>| {
        Some((new.value / one?).ln().hypot((base.value / other?).ln()))
    };
    let (below, above) = (reach(new.low, base.high), reach(new.high, base.low));
    let widest = below.zip(above).map(|(below, above)| below.max(above));
    Ratio {
        ratio: log.exp(),
        low: below.map(|below| (log - below).exp()),
        high: above.map(|above| (log + above).exp()),
        detectable: widest.map(|widest| (widest * (1.0 + Z_POWER / Z_TAIL)).exp_m1()),
    }
}

/// Ranks (from 1) of the ordered values, of `count` independent ones, between which the `quantile` lies.
///
/// Each end is left out when it would lie beyond the values. Order statistics of the binomial distribution
/// (David and Nagaraja 2003, section 7.1).
pub fn ranks(count: u64, quantile: f64) -> (Option<u64>, Option<u64>) {
    let (fewest, most) = values_beyond(count, 1.0 - quantile);
    let low = count.checked_sub(most).filter(|rank| *rank > 0);
    let high = Some(count + 1 - fewest).filter(|rank| *rank <= count);
    (low, high)
}

/// How many of `count` values lie beyond a quantile that each exceeds with `chance`: the 2.5% and the 97.5% quantile.
fn values_beyond(count: u64, chance: f64) -> (u64, u64) {
    let (n, expected) = (count as f64, count as f64 * chance);
    if chance > 0.5 {
        let (fewest, most) = values_beyond(count, 1.0 - chance);
        return (count - most, count - fewest);
    }
    if expected >= EXACT_BELOW {
        let reach = Z_TAIL * (expected * (1.0 - chance)).sqrt();
        return ((expected - reach).floor() as u64, (expected + reach).ceil() as u64);
    }
    let mut probability = (n * (-chance).ln_1p()).exp();
    let (mut sum, mut fewest) = (probability, None);
    for beyond in 0..count {
        if sum > TAIL {
            fewest.get_or_insert(beyond);
        }
        if sum >= 1.0 - TAIL {
            return (fewest.unwrap_or(beyond), beyond);
        }
        let k = beyond as f64;
        probability *= (n - k) / (k + 1.0) * chance / (1.0 - chance);
        sum += probability;
    }
    (fewest.unwrap_or(count), count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use generator::rng::Rng;

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-6, "{value} is not {expected}");
    }

    /// scipy 1.17: `a, b = np.log([101, 99, 103]), np.log([110, 108, 115, 109])`;
    /// `r = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)`; `np.exp([b.mean() - a.mean(), *r])`.
    #[test]
    fn runs_have_the_interval_of_welch() {
        let base = of_runs(&[101.0, 99.0, 103.0]).unwrap();
        let new = of_runs(&[110.0, 108.0, 115.0, 109.0]).unwrap();
        let found = ratio(base, new);
        near(found.ratio, WELCH[0]);
        near(found.low.unwrap(), WELCH[1]);
        near(found.high.unwrap(), WELCH[2]);
        assert_eq!(of_runs(&[1.0]), None);
        assert_eq!(of_runs(&[1.0, 0.0]), None);
    }

    /// numpy: `x = np.array([(i * 37) % 101 + 50 for i in range(40)])`, `m = np.convolve(x, np.ones(6) / 6, 'valid')`;
    /// `np.sqrt(6 / (35 * 34) * ((m - x.mean())**2).sum()) / x.mean()`.
    #[test]
    fn slices_have_the_error_of_overlapping_batches() {
        let amounts: Vec<f64> = (0..40).map(|i| f64::from((i * 37) % 101 + 50)).collect();
        let found = of_slices(&amounts, &[0.1; 40]).unwrap();
        near(found.variance.sqrt(), BATCHES);
        near(found.log.exp(), amounts.iter().sum::<f64>() / 4.0);
        assert_eq!(of_slices(&amounts[..9], &[0.1; 9]), None);
        assert_eq!(of_slices(&[0.0; 20], &[0.1; 20]), None);
    }

    /// scipy: `k = stats.binom.ppf([.025, .975], n, 1 - q)`; `n - k[1], n + 1 - k[0]`.
    #[test]
    fn ranks_are_those_of_the_binomial_distribution() {
        for (count, quantile, low, high) in RANKS {
            assert_eq!(ranks(count, quantile), (low, high), "{count} {quantile}");
        }
        // The normal distribution is a little off.
        for (count, quantile, low, high) in LARGE {
            let found = ranks(count, quantile);
            let (found_low, found_high) = (found.0.unwrap(), found.1.unwrap());
            assert!(found_low.abs_diff(low) <= 3 && found_high.abs_diff(high) <= 3, "{found:?}");
        }
    }

    const WELCH: [f64; 3] = [1.093_882_304_850_434, 1.044_389_418_403_501_9, 1.145_720_624_682_351_5];
    const BATCHES: f64 = 0.026_708_256_493_656_31;
    type Ranks = (u64, f64, Option<u64>, Option<u64>);
    const RANKS: [Ranks; 8] = [
        (20, 0.5, Some(6), Some(15)),
        (100, 0.5, Some(40), Some(61)),
        (100, 0.9, Some(84), Some(96)),
        (2000, 0.99, Some(1971), Some(1989)),
        (2000, 0.999, Some(1995), None),
        (5000, 0.9999, Some(4998), None),
        (10, 0.01, None, Some(2)),
        (10_000_000, 0.999_99, Some(9_999_880), Some(9_999_920)),
    ];
    const LARGE: [(u64, f64, u64, u64); 4] = [
        (50_000, 0.99, 49_456, 49_544),
        (1_000_000, 0.5, 499_020, 500_981),
        (1_000_000, 0.99, 989_805, 990_196),
        (10_000_000, 0.9999, 9_998_938, 9_999_062),
    ];

    #[test]
    fn intervals_that_are_not_symmetric_stay_so() {
        let base = Bounded { value: 100.0, low: Some(99.0), high: Some(102.0) };
        let new = Bounded { value: 110.0, low: Some(108.0), high: None };
        let found = ratio_of_bounded(base, new);
        near(found.ratio, 1.1);
        near(found.low.unwrap(), 1.1 / (110.0f64 / 108.0).ln().hypot((100.0f64 / 102.0).ln()).exp());
        assert_eq!((found.high, found.detectable), (None, None));
    }

    /// A sum of twelve uniform numbers is nearly normal.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.below(1 << 32) as f64 / f64::from(u32::MAX)).sum::<f64>() - 6.0
    }

    /// The share of intervals that hold the true ratio, 1, in 2000 pairs of samples that `estimate` draws.
    fn coverage(mut estimate: impl FnMut(&mut Rng) -> Estimate) -> f64 {
        let mut rng = Rng::stream(7, 0);
        let holds = (0..2000).filter(|_| {
            let found = ratio(estimate(&mut rng), estimate(&mut rng));
            found.low.unwrap() <= 1.0 && 1.0 <= found.high.unwrap()
        });
        holds.count() as f64 / 2000.0
    }

    #[test]
    fn ninety_five_of_a_hundred_intervals_hold_the_truth() {
        // The seed is fixed, so the result is, too.
        let runs = coverage(|rng| of_runs(&[0; 4].map(|_| 100.0 + 3.0 * normal(rng))).unwrap());
        assert!((0.94..=0.97).contains(&runs), "{runs}");
        // Slices that depend on the one before, as those of real servers.
        for (memory, least) in [(0.0, 0.94), (0.5, 0.92)] {
            let slices = coverage(|rng| {
                let mut state = normal(rng) / f64::sqrt(1.0 - memory * memory);
                let amounts: Vec<f64> = (0..100)
                    .map(|_| {
                        state = memory * state + normal(rng);
                        10_000.0 + 200.0 * state
                    })
                    .collect();
                of_slices(&amounts, &[0.1; 100]).unwrap()
            });
            assert!((least..=0.97).contains(&slices), "{memory}: {slices}");
        }
    }

    #[test]
    fn intervals_of_percentiles_hold_the_truth() {
        let mut rng = Rng::stream(11, 0);
        for quantile in [0.5, 0.99] {
            let holds = (0..1000).filter(|_| {
                let mut values: Vec<f64> =
                    (0..2000).map(|_| rng.below(1 << 40) as f64 / (1u64 << 40) as f64).collect();
                values.sort_unstable_by(f64::total_cmp);
                let (low, high) = ranks(2000, quantile);
                values[low.unwrap() as usize - 1] <= quantile
                    && quantile <= values[high.unwrap() as usize - 1]
            });
            let share = holds.count() as f64 / 1000.0;
            assert!((0.935..=0.975).contains(&share), "{quantile}: {share}");
        }
    }
}
