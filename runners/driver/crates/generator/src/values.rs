//! The bytes that are stored: slices of one pool, with sizes by a rule, at random places or at those of their key.

use std::sync::Arc;

use crate::rng::{Rng, SplitMix64};
use crate::skew::Alias;

/// Values begin at one of this many places of the pool.
const PLACES: u64 = 1 << 16;

/// The bytes of each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    Fixed(usize),
    /// Any size from the first to the second, each equally likely.
    Range(usize, usize),
    /// These sizes, each with its weight.
    Weighted(Vec<(usize, u64)>),
}

impl Sizes {
    pub fn largest(&self) -> usize {
        match self {
            Sizes::Fixed(bytes) | Sizes::Range(_, bytes) => *bytes,
            Sizes::Weighted(sizes) => sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
        }
    }

    /// The mean in bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Sizes::Fixed(bytes) => *bytes as f64,
            Sizes::Range(from, to) => (*from as f64 + *to as f64) / 2.0,
            Sizes::Weighted(sizes) => {
                let total: u64 = sizes.iter().map(|(_, weight)| weight).sum();
                let sum: f64 = sizes.iter().map(|(bytes, weight)| *bytes as f64 * *weight as f64).sum();
                sum / total as f64
            }
        }
    }
}

/// Seconds that a key lives: any number from the first to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl(pub u64, pub u64);

impl Ttl {
    pub fn draw(self, rng: &mut Rng) -> u64 {
        self.0 + rng.below(self.1 - self.0 + 1)
    }
}

/// A slice of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueRange {
    pub from: usize,
    pub bytes: usize,
}

/// Random bytes of which all values are slices: values differ, and making one costs only a copy.
#[derive(Clone)]
pub struct ValuePool {
    bytes: Arc<[u8]>,
    rule: Rule,
    keyed: bool,
}

/// How long the next value is.
#[derive(Clone)]
enum Rule {
    Fixed(usize),
    Range { from: usize, sizes: u64 },
    Weighted { choice: Alias, sizes: Arc<[usize]> },
    Rising { from: usize, more: u64, last: u64 },
}

impl ValuePool {
    /// The pool of `seed` for values of at most `largest` bytes. Its stream is one that no connection has.
    pub fn new(seed: u64, largest: usize) -> ValuePool {
        let mut bytes = vec![0; largest + PLACES as usize];
        Rng::stream(seed, u64::MAX).fill(&mut bytes);
        ValuePool { bytes: bytes.into(), rule: Rule::Fixed(largest), keyed: false }
    }

    /// The same bytes for values of `sizes`, which the pool is large enough for. If `keyed`, the number of the key
    /// determines its value; otherwise values are random.
    pub fn with(&self, sizes: &Sizes, keyed: bool) -> ValuePool {
        let rule = match sizes {
            Sizes::Fixed(bytes) => Rule::Fixed(*bytes),
            Sizes::Range(from, to) => Rule::Range { from: *from, sizes: (to - from) as u64 + 1 },
            Sizes::Weighted(sizes) => {
                let weights: Vec<f64> = sizes.iter().map(|(_, weight)| *weight as f64).collect();
                let sizes = sizes.iter().map(|(bytes, _)| *bytes).collect();
                Rule::Weighted { choice: Alias::new(&weights), sizes }
            }
        };
        ValuePool { bytes: self.bytes.clone(), rule, keyed }
    }

    /// The same, but if they `rise`, sizes of a range go from its least for key 0 evenly to its most for the last of `keys`.
    pub fn rising(self, rise: bool, keys: u64) -> ValuePool {
        let rule = match self.rule {
            Rule::Range { from, sizes } if rise => Rule::Rising { from, more: sizes - 1, last: keys - 1 },
            rule => rule,
        };
        ValuePool { rule, ..self }
    }

    /// The place of the next value of key `number`.
    #[inline]
    pub fn place(&self, rng: &mut Rng, number: u64) -> usize {
        match self.keyed {
            false => rng.below(PLACES) as usize,
            true => (SplitMix64::new(number).next_u64() % PLACES) as usize,
        }
    }

    /// The next value of key `number`.
    pub fn cut(&self, rng: &mut Rng, number: u64) -> ValueRange {
        let bytes = match (&self.rule, self.keyed) {
            (Rule::Fixed(bytes), _) => *bytes,
            (Rule::Rising { from, more, last }, _) => {
                from + (u128::from(*more) * u128::from(number) / u128::from((*last).max(1))) as usize
            }
            // A different word than the one that determines the place.
            (rule, true) => rule.size(SplitMix64::new(!number).next_u64()),
            (rule, false) => rule.size(rng.next_u64()),
        };
        ValueRange { from: self.place(rng, number), bytes }
    }

    pub fn is_keyed(&self) -> bool {
        self.keyed
    }

    #[inline]
    pub fn bytes(&self, cut: ValueRange) -> &[u8] {
        &self.bytes[cut.from..cut.from + cut.bytes]
    }
}

impl Rule {
    /// The size for one random word.
    fn size(&self, word: u64) -> usize {
        match self {
            Rule::Fixed(bytes) | Rule::Rising { from: bytes, .. } => *bytes,
            Rule::Range { from, sizes } => from + ((u128::from(word) * u128::from(*sizes)) >> 64) as usize,
            Rule::Weighted { choice, sizes } => sizes[choice.pick(word) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_with_the_number_of_the_key() {
        let pool = ValuePool::new(1, 30).with(&Sizes::Range(10, 30), false).rising(true, 5);
        let mut rng = Rng::stream(1, 1);
        let sizes: Vec<usize> = (0..5).map(|number| pool.cut(&mut rng, number).bytes).collect();
        assert_eq!(sizes, [10, 15, 20, 25, 30]);
        assert_eq!(pool.rising(true, 1).cut(&mut rng, 0).bytes, 10);
    }
}
