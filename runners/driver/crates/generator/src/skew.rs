//! Numbers that are not equally likely. A draw costs a few table look-ups; only ranks far down a long Zipf tail, and
//! the normal distribution, need logarithms, which come from `libm`: a seed gives the same numbers on every machine.

use crate::rng::Rng;

/// Ranks of a Zipf distribution that are drawn out of a table; it has to stay in a CPU's cache.
const HEAD: u64 = 1 << 16;

/// Weighted choice out of a table: Walker's alias method, set up as by Vose (1991).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias(Vec<Cell>);

/// A cell gives its own number if the rest of the draw is below `own`, else `other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    own: u32,
    other: u32,
}

impl Alias {
    /// Numbers from 0, each in proportion to its weight. At least one weight is above 0, at most 2^32 are given.
    pub fn new(weights: &[f64]) -> Alias {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let mut cells: Vec<Cell> =
            (0..weights.len()).map(|at| Cell { own: u32::MAX, other: at as u32 }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..shares.len()).partition(|at| shares[*at] < 1.0);
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            cells[poor] = Cell { own: (shares[poor] * 2f64.powi(32)) as u32, other: rich as u32 };
            shares[rich] -= 1.0 - shares[poor];
            if shares[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Alias(cells)
    }

    /// The number for one random word.
    #[inline]
    pub fn pick(&self, word: u64) -> u64 {
        let product = u128::from(word) * self.0.len() as u128;
        let (at, rest) = ((product >> 64) as u64, (product >> 32) as u32);
        let cell = self.0[at as usize];
        if rest < cell.own { at } else { u64::from(cell.other) }
    }
}

/// `count` numbers from 0, number k in proportion to (`first` + k)^-`exponent`.
#[derive(Debug, Clone, PartialEq)]
pub struct Zipf {
    first: u64,
    /// The first numbers, and behind them one number for all others.
    head: Alias,
    tail: Option<Tail>,
}

impl Zipf {
    /// Of ranks from `first`, which is at least 1.
    pub fn new(first: u64, count: u64, exponent: f64) -> Zipf {
        let heads = count.min(HEAD - 1);
        let ranks = first..first + heads;
        let mut weights: Vec<f64> = ranks.map(|rank| libm::pow(rank as f64, -exponent)).collect();
        let tail = (heads < count).then(|| Tail::new(first + heads, first + count - 1, exponent));
        weights.extend(tail.as_ref().map(Tail::weight));
        Zipf { first, head: Alias::new(&weights), tail }
    }

    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let number = self.head.pick(rng.next_u64());
        match &self.tail {
            Some(tail) if number + 1 == HEAD => tail.draw(rng) - self.first,
            _ => number,
        }
    }
}

/// Ranks `first` to `last`, counted from 1: rejection-inversion (Hörmann and Derflinger 1996, "Rejection-inversion to
/// generate variates from monotone discrete distributions", algorithm ZRI), begun at `first` instead of 1.
#[derive(Debug, Clone, PartialEq)]
struct Tail {
    exponent: f64,
    first: f64,
    last: f64,
    /// The limits of the integral from which ranks are drawn.
    from: f64,
    to: f64,
    /// Ranks that are rounded up by less than this are accepted at once.
    surely: f64,
}

impl Tail {
    fn new(first: u64, last: u64, exponent: f64) -> Tail {
        let (first, last) = (first as f64, last as f64);
        let mut tail = Tail { exponent, first, last, from: 0.0, to: 0.0, surely: 0.0 };
        tail.from = tail.integral(first + 0.5) - tail.density(first);
        tail.to = tail.integral(last + 0.5);
        let second = first + 1.0;
        tail.surely = second - tail.inverse(tail.integral(second + 0.5) - tail.density(second));
        tail
    }

    /// The sum of the weights, by the midpoint rule: as `first` is large, the error is below 10^-9 of it.
    fn weight(&self) -> f64 {
        (self.to - self.integral(self.first - 0.5)) * libm::pow(self.first, -self.exponent)
    }

    /// In proportion to x^-s; 1 at `first`.
    fn density(&self, x: f64) -> f64 {
        libm::pow(x / self.first, -self.exponent)
    }

    /// The integral of the density from `first` to x: with r = x / first, `first * (r^(1-s) - 1) / (1-s)`, which is
    /// `first * ln r` for s = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x / self.first);
        let power = (1.0 - self.exponent) * log;
        self.first
            * if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { log * libm::expm1(power) / power }
    }

    fn inverse(&self, integral: f64) -> f64 {
        let y = integral / self.first;
        let power = (y * (1.0 - self.exponent)).max(-1.0);
        let log = if power.abs() < 1e-8 { y * (1.0 - power / 2.0) } else { y * libm::log1p(power) / power };
        self.first * libm::exp(log)
    }

    #[inline(never)]
    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let y = self.to + rng.unit() * (self.from - self.to);
            let x = self.inverse(y);
            let rank = libm::round(x).clamp(self.first, self.last);
            if rank - x <= self.surely || y >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }
}

/// A fixed permutation of 0 to `count` - 1 without a table: each step can be undone on a whole number of bits, and a
/// number that falls outside is permuted again until it is inside (cycle walking).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scatter {
    count: u64,
    mask: u64,
    shift: u32,
}

impl Scatter {
    pub fn new(count: u64) -> Scatter {
        let bits = u64::BITS - (count - 1).leading_zeros();
        Scatter { count, mask: (1u64 << bits) - 1, shift: bits.div_ceil(2) }
    }

    #[inline]
    pub fn place(&self, number: u64) -> u64 {
        let mut place = number;
        loop {
            // The constants are those of SplitMix64.
            place = place.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) & self.mask;
            place ^= place >> self.shift;
            place = place.wrapping_mul(0x94d0_49bb_1331_11eb) & self.mask;
            place ^= place >> self.shift;
            if place < self.count {
                return place;
            }
        }
    }
}

/// A normal distribution cut to 0 to `count` and rounded down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bell {
    pub count: u64,
    pub mean: f64,
    pub deviation: f64,
}

impl Bell {
    /// Box and Muller (1958); a draw outside of the range is repeated.
    #[inline(never)]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.unit()));
            let x = self.mean + self.deviation * radius * libm::cos(std::f64::consts::TAU * rng.unit());
            if x >= 0.0 && x < self.count as f64 {
                return x as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattering_loses_no_number() {
        for count in [1, 2, 3, 4, 5, 100, 127, 128, 129, 65_536, 100_003] {
            let scatter = Scatter::new(count);
            let mut places: Vec<u64> = (0..count).map(|number| scatter.place(number)).collect();
            let fixed = places.iter().enumerate().filter(|(number, place)| *number as u64 == **place).count();
            assert!(count < 100 || fixed < 12, "{fixed} of {count} stay where they are");
            places.sort_unstable();
            assert!(places.into_iter().eq(0..count));
        }
        assert!(Scatter::new(1 << 40).place(12_345) < 1 << 40);
    }

    #[test]
    fn the_weight_of_the_tail_is_the_sum() {
        for exponent in [0.5, 0.99, 1.0, 1.2, 3.0] {
            let sum: f64 = (65_536..=1_000_000).rev().map(|rank| f64::from(rank).powf(-exponent)).sum();
            let weight = Tail::new(65_536, 1_000_000, exponent).weight();
            assert!((weight / sum - 1.0).abs() < 1e-9, "{exponent}: {weight} is not {sum}");
        }
    }
}
