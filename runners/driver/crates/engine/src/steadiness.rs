//! Whether the rate was steady in the window, and whether the load was steady before it.

/// With fewer slices the thirds are too short to compare.
const FEWEST_PER_THIRD: usize = 5;
/// Medians of the thirds that differ by less are steady, even if the difference is significant.
const SHIFT_THAT_MATTERS: f64 = 0.05;
/// Two-sided p = 0.01 of the normal distribution.
const Z_LIMIT: f64 = 2.576;

/// Whether the first and the last third of `slices` (requests per whole slice) differ: a slope or a step.
///
/// Both must hold: the medians differ by more than 5%, and the rank-sum test (Mann and Whitney 1947, normal
/// approximation) rejects at p = 0.01. False below 15 slices: too few to tell.
pub fn is_unsteady(slices: &[u64]) -> bool {
    let third = slices.len() / 3;
    if third < FEWEST_PER_THIRD {
        return false;
    }
    let slices: Vec<f64> = slices.iter().map(|count| *count as f64).collect();
    let (first, last) = (&slices[..third], &slices[slices.len() - third..]);
    let (before, after) = (median(first), median(last));
    let shift = (after - before).abs() / before.max(after).max(1.0);
    shift > SHIFT_THAT_MATTERS && rank_sum_z(first, last).abs() > Z_LIMIT
}

/// The number of slices that show whether a load is steady.
pub const SETTLED_SLICES: usize = 10;
/// A load that changes less over that many slices is steady, even if the change is significant.
const CHANGE_THAT_MATTERS: f64 = 0.02;
/// Two-sided p = 0.05 of Student's t with the degrees of freedom that a line through ten points leaves.
const T_LIMIT: f64 = 2.306;

/// Whether the values of [`SETTLED_SLICES`] slices are steady: no trend and no step. True without values, false with too few.
///
/// They are not steady when a change of more than 2% is significant: the slope of the least-squares line (95% interval without zero), or
/// that between the halves (rank-sum test at p = 0.01, which is all of one above all of the other). The noise of a
/// busy machine alone is no reason to wait longer.
pub fn is_settled(values: &[f64]) -> bool {
    if values.is_empty() {
        return true;
    }
    let Some(Line { slope, error, mean }) = Line::through(values) else { return false };
    let matters = |change: f64| change.abs() > CHANGE_THAT_MATTERS * mean.abs();
    let (first, last) = values.split_at(values.len() / 2);
    let climbs = matters(slope * (values.len() - 1) as f64) && slope.abs() > T_LIMIT * error;
    let jumps = matters(median(last) - median(first)) && rank_sum_z(first, last).abs() > Z_LIMIT;
    !climbs && !jumps
}

/// The change from the first to the last of `values` along the line fitted to them, as a share of their mean.
pub fn change(values: &[f64]) -> Option<f64> {
    let line = Line::through(values).filter(|line| line.mean != 0.0)?;
    Some(line.slope * (values.len() - 1) as f64 / line.mean)
}

/// The least-squares line through values at equal distances: its slope per step with the standard error, and their mean.
struct Line {
    slope: f64,
    error: f64,
    mean: f64,
}

impl Line {
    /// None through fewer than [`SETTLED_SLICES`] values.
    fn through(values: &[f64]) -> Option<Line> {
        if values.len() < SETTLED_SLICES {
            return None;
        }
        let count = values.len() as f64;
        let (middle, mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
        let places = || (0u32..).map(|place| f64::from(place) - middle).zip(values);
        let spread: f64 = places().map(|(place, _)| place * place).sum();
        let slope = places().map(|(place, value)| place * (value - mean)).sum::<f64>() / spread;
        let rest: f64 = places().map(|(place, value)| (value - mean - slope * place).powi(2)).sum();
        Some(Line { slope, error: (rest / (count - 2.0) / spread).sqrt(), mean })
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[half - 1] + sorted[half]) / 2.0,
        _ => sorted[half],
    }
}

/// The standardised Mann-Whitney U of `a` against `b`; a tie counts one half.
fn rank_sum_z(a: &[f64], b: &[f64]) -> f64 {
    let wins: f64 = a.iter().flat_map(|x| b.iter().map(move |y| win(*x, *y))).sum();
    let (m, n) = (a.len() as f64, b.len() as f64);
    (wins - m * n / 2.0) / (m * n * (m + n + 1.0) / 12.0).sqrt()
}

fn win(x: f64, y: f64) -> f64 {
    match x.total_cmp(&y) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    }
}

/// Connections are idle between the last check and the window, so the load runs for a slice before it counts.
pub const SETTLING_SLICES: u64 = 1;
/// The fewest slices that a warm-up which ends by itself may be allowed to take.
pub const FEWEST_SLICES: u64 = SETTLED_SLICES as u64 + SETTLING_SLICES;

#[cfg(test)]
mod tests {
    use super::*;
    use generator::rng::Rng;

    /// 20 slices of about 1000 with a wobble of 2%, each multiplied by `shape` of its place 0..1.
    fn slices(shape: impl Fn(f64) -> f64) -> Vec<u64> {
        (0..20u32)
            .map(|i| {
                let wobble = 1.0 + 0.02 * (f64::from(i * 7 % 5) - 2.0) / 2.0;
                (1000.0 * wobble * shape(f64::from(i) / 20.0)) as u64
            })
            .collect()
    }

    #[test]
    fn noise_is_steady() {
        assert!(!is_unsteady(&slices(|_| 1.0)));
    }

    #[test]
    fn a_slope_and_a_step_are_not() {
        assert!(is_unsteady(&slices(|place| 1.0 + 0.2 * place)));
        assert!(is_unsteady(&slices(|place| if place < 0.5 { 1.0 } else { 0.9 })));
        assert!(is_unsteady(&slices(|place| if place < 0.7 { 1.0 } else { 0.8 })));
    }

    #[test]
    fn a_sure_but_small_shift_is_steady() {
        assert!(!is_unsteady(&slices(|place| 1.0 + 0.03 * place)));
    }

    #[test]
    fn one_stall_is_not_a_trend() {
        assert!(!is_unsteady(&slices(|place| if place == 0.5 { 0.0 } else { 1.0 })));
    }

    #[test]
    fn few_or_empty_slices_say_nothing() {
        assert!(!is_unsteady(&[]));
        assert!(!is_unsteady(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]));
        assert!(!is_unsteady(&[0; 30]));
    }

    /// Ten values of about 1000 with noise of `cv`, each multiplied by `shape` of its place 0..1.
    fn settling(seed: u64, cv: f64, shape: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut rng = Rng::stream(seed, 0);
        // The sum of twelve uniform numbers less 6 is nearly normal, with a variance of 1.
        let mut normal = || (0..12).map(|_| rng.below(1 << 20) as f64 / (1 << 20) as f64).sum::<f64>() - 6.0;
        (0..10).map(|slice| 1000.0 * (1.0 + cv * normal()) * shape(f64::from(slice) / 10.0)).collect()
    }

    fn share_settled(cv: f64, shape: impl Fn(f64) -> f64) -> f64 {
        f64::from((0..1000).map(|seed| u32::from(is_settled(&settling(seed, cv, &shape)))).sum::<u32>())
            / 1000.0
    }

    #[test]
    fn a_flat_load_has_come_to_rest_whatever_its_noise() {
        assert!(is_settled(&[1000.0; 10]));
        assert!(is_settled(&[0.0; 10]));
        // 5% of lines through noise seem to climb, 1% of halves to differ.
        for cv in [0.005, 0.02, 0.1, 0.3] {
            assert!(share_settled(cv, |_| 1.0) > 0.9, "{cv}");
        }
    }

    #[test]
    fn a_ramp_and_a_step_have_not() {
        for shape in [
            |place: f64| 1.0 + 0.2 * place,
            |place| 1.0 - 0.2 * place,
            |place| if place < 0.5 { 1.0 } else { 0.85 },
            |place: f64| 1.0 - 0.5 * (-5.0 * place).exp(),
        ] {
            assert!(share_settled(0.02, shape) < 0.05);
        }
    }

    #[test]
    fn a_sure_but_small_climb_is_rest() {
        assert!(is_settled(&settling(1, 0.0, |place| 1.0 + 0.015 * place)));
        assert!(!is_settled(&settling(1, 0.0, |place| 1.0 + 0.03 * place)));
    }

    #[test]
    fn one_stall_is_no_climb() {
        assert!(is_settled(&settling(1, 0.01, |place| if place == 0.5 { 0.2 } else { 1.0 })));
    }

    #[test]
    fn few_values_are_no_rest_and_none_are_not_asked_for() {
        assert!(!is_settled(&[1000.0; 9]));
        assert!(is_settled(&[]));
    }

    #[test]
    fn a_change_is_that_of_the_line() {
        let climbing: Vec<f64> = (0..10).map(|slice| 95.5 + f64::from(slice)).collect();
        assert!((change(&climbing).unwrap() - 0.09).abs() < 1e-9);
        assert_eq!((change(&[0.0; 10]), change(&[1.0; 9])), (None, None));
    }
}
