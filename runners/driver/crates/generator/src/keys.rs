//! Which key numbers a connection asks for.

use std::ops::Range;
use std::sync::Arc;

use crate::rng::Rng;
use crate::share::share;
use crate::skew::{Bell, Scatter, Zipf};

/// How often each key is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Each equally.
    Uniform,
    /// Each once, then again.
    Sequential,
    /// Each once, then again: every connection has a range of its own.
    Parts,
    /// Every connection each once, then again.
    Cycle,
    /// The key of rank k in proportion to k to the power of -`exponent`; ranks are scattered over the keys, unless they count up
    /// from the `first_rank`, that of the first key. A key of rank 0 is not asked for.
    Zipf { exponent: f64, first_rank: Option<u64> },
    /// Normally distributed, with this mean and standard deviation, both as shares of the number of keys.
    Gaussian { mean: f64, deviation: f64 },
    /// The first `hot_keys` of all keys get `hot_requests` of all requests, both as shares.
    Hotspot { hot_keys: f64, hot_requests: f64 },
    /// As zipf, but rank 1 is the last key, rank 2 the one before it.
    Latest { exponent: f64 },
}

/// The rule of a whole workload.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyOrder {
    /// Each key equally likely.
    Uniform,
    /// Each key once, then again: every connection has a range of its own.
    Parts,
    /// Counting up: every connection by itself, and after the last key comes the first again.
    Cycle,
    /// Counting up: the connections take turns, and after the last key comes the first again.
    Sequential,
    Skewed(Arc<Skew>),
}

impl KeyOrder {
    /// Whether a number depends on those before it.
    pub fn counts(&self) -> bool {
        matches!(self, KeyOrder::Parts | KeyOrder::Cycle | KeyOrder::Sequential)
    }

    /// The rule by which `count` keys are asked for.
    pub fn of(distribution: Distribution, count: u64) -> KeyOrder {
        let skew = match distribution {
            Distribution::Uniform => return KeyOrder::Uniform,
            Distribution::Sequential => return KeyOrder::Sequential,
            Distribution::Parts => return KeyOrder::Parts,
            Distribution::Cycle => return KeyOrder::Cycle,
            Distribution::Zipf { exponent, first_rank: None } => {
                Skew::Zipf { ranks: Zipf::new(1, count, exponent), scatter: Scatter::new(count) }
            }
            Distribution::Zipf { exponent, first_rank: Some(first) } => {
                let skip = u64::from(first == 0 && count > 1);
                Skew::Ranked { ranks: Zipf::new(first.max(1), count - skip, exponent), skip }
            }
            Distribution::Latest { exponent } => {
                Skew::Latest { ranks: Zipf::new(1, count, exponent), last: count - 1 }
            }
            Distribution::Gaussian { mean, deviation } => {
                Skew::Bell(Bell { count, mean: mean * count as f64, deviation: deviation * count as f64 })
            }
            Distribution::Hotspot { hot_keys, hot_requests } => {
                let hot = ((hot_keys * count as f64).round() as u64).clamp(1, count);
                Skew::Hotspot { hot_requests: if hot == count { 1.0 } else { hot_requests }, hot, count }
            }
        };
        KeyOrder::Skewed(skew.into())
    }
}

/// A rule by which some keys are more likely than others.
#[derive(Debug, Clone, PartialEq)]
pub enum Skew {
    Zipf {
        ranks: Zipf,
        scatter: Scatter,
    },
    /// Ranks count up with the keys, of which so many are left out.
    Ranked {
        ranks: Zipf,
        skip: u64,
    },
    Latest {
        ranks: Zipf,
        last: u64,
    },
    Bell(Bell),
    Hotspot {
        hot_requests: f64,
        hot: u64,
        count: u64,
    },
}

impl Skew {
    #[inline]
    fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Skew::Zipf { ranks, scatter } => scatter.place(ranks.draw(rng)),
            Skew::Ranked { ranks, skip } => skip + ranks.draw(rng),
            Skew::Latest { ranks, last } => last - ranks.draw(rng),
            Skew::Bell(bell) => bell.draw(rng),
            Skew::Hotspot { hot_requests, hot, count } => match rng.unit() < *hot_requests {
                true => rng.below(*hot),
                false => hot + rng.below(count - hot),
            },
        }
    }
}

/// The key numbers of one connection.
#[derive(Debug, Clone, PartialEq)]
pub enum Keys {
    Uniform {
        keyspace: u64,
    },
    Part {
        next: u64,
        part: Range<u64>,
    },
    Turns(Turns),
    Skewed(Arc<Skew>),
    /// Those of a list, by the places that other keys name.
    Among {
        places: Box<Keys>,
        numbers: Arc<[u32]>,
    },
}

impl Keys {
    /// The keys of connection `index` of `clients`; in turn it takes `numbers` of them.
    pub fn new(order: &KeyOrder, keyspace: u64, index: usize, clients: usize, numbers: u64) -> Keys {
        match order {
            KeyOrder::Uniform => Keys::Uniform { keyspace },
            KeyOrder::Parts => {
                let part = share(keyspace, index, clients);
                // More connections than keys: those without a part repeat the last key.
                let first = part.first.min(keyspace - 1);
                Keys::Part { next: first, part: first..part.first + part.count }
            }
            KeyOrder::Cycle => Keys::Part { next: 0, part: 0..keyspace },
            KeyOrder::Sequential => Keys::Turns(Turns::new(keyspace, index, clients, numbers.max(1))),
            KeyOrder::Skewed(skew) => Keys::Skewed(skew.clone()),
        }
    }

    /// The keys of these `numbers`, in which these are the places.
    pub fn among(self, numbers: Arc<[u32]>) -> Keys {
        Keys::Among { places: self.into(), numbers }
    }

    #[inline(always)]
    pub fn next(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Keys::Uniform { keyspace } => rng.below(*keyspace),
            _ => self.next_of_few(rng),
        }
    }

    #[inline]
    fn next_of_few(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Keys::Uniform { keyspace } => rng.below(*keyspace),
            Keys::Part { next, part } => {
                let number = *next;
                *next = if number + 1 < part.end { number + 1 } else { part.start };
                number
            }
            Keys::Turns(turns) => turns.next(),
            Keys::Skewed(skew) => skew.draw(rng),
            Keys::Among { places, numbers } => u64::from(numbers[places.next(rng) as usize]),
        }
    }
}

/// Blocks of `block` numbers that `clients` connections take in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turns {
    next: u64,
    left: u64,
    block: u64,
    skip: u64,
    keyspace: u64,
}

impl Turns {
    fn new(keyspace: u64, index: usize, clients: usize, block: u64) -> Turns {
        let skip = block.wrapping_mul(clients as u64 - 1);
        Turns { next: block.wrapping_mul(index as u64), left: block, block, skip, keyspace }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let number = self.next % self.keyspace;
        self.next = self.next.wrapping_add(1);
        self.left -= 1;
        if self.left == 0 {
            self.next = self.next.wrapping_add(self.skip);
            self.left = self.block;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first `turns` blocks of each of `clients` connections, sorted.
    fn taken(keyspace: u64, clients: usize, block: u64, turns: u64) -> Vec<u64> {
        let mut rng = Rng::stream(1, 1);
        let mut numbers: Vec<u64> = (0..clients)
            .map(|index| Keys::new(&KeyOrder::Sequential, keyspace, index, clients, block))
            .flat_map(|mut keys| (0..block * turns).map(|_| keys.next(&mut rng)).collect::<Vec<_>>())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn connections_that_take_turns_leave_no_key_out() {
        assert_eq!(taken(1000, 4, 1, 5), (0..20).collect::<Vec<_>>());
        assert_eq!(taken(1000, 3, 10, 2), (0..60).collect::<Vec<_>>());
        assert_eq!(taken(6, 3, 1, 4), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    }
}
