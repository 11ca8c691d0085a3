//! Was the rate the same at the beginning and at the end of the window?

/// A third of fewer slices than this says nothing.
const FEWEST_PER_THIRD: usize = 5;
/// Medians of the thirds that differ by less are steady, however sure the difference is.
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
    let (first, last) = (&slices[..third], &slices[slices.len() - third..]);
    let (before, after) = (median(first), median(last));
    let shift = (after - before).abs() / before.max(after).max(1.0);
    shift > SHIFT_THAT_MATTERS && rank_sum_z(first, last).abs() > Z_LIMIT
}

fn median(values: &[u64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[half - 1] + sorted[half]) as f64 / 2.0,
        _ => sorted[half] as f64,
    }
}

/// The standardised Mann-Whitney U of `a` against `b`; a tie counts one half.
fn rank_sum_z(a: &[u64], b: &[u64]) -> f64 {
    let wins: f64 = a.iter().flat_map(|x| b.iter().map(move |y| win(*x, *y))).sum();
    let (m, n) = (a.len() as f64, b.len() as f64);
    (wins - m * n / 2.0) / (m * n * (m + n + 1.0) / 12.0).sqrt()
}

fn win(x: u64, y: u64) -> f64 {
    match x.cmp(&y) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
