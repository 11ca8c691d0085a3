//! Which key numbers a connection asks for.

use std::ops::Range;

use crate::rng::Rng;
use crate::stage::share;

/// How often each key is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Each equally.
    Uniform,
    /// Each once, then again.
    Sequential,
    /// The key of rank k in proportion to k to the power of -`exponent`; ranks are scattered over the keys.
    Zipf { exponent: f64 },
    /// As a bell over the keys: most often the middle one, with a standard deviation of this share of their count.
    Gaussian { deviation: f64 },
    /// The first `hot_keys` of all keys get `hot_requests` of all requests, both as shares.
    Hotspot { hot_keys: f64, hot_requests: f64 },
    /// As zipf, but rank 1 is the last key, rank 2 the one before it.
    Latest { exponent: f64 },
}

/// The rule of a whole workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrder {
    /// Each key equally likely.
    Uniform,
    /// Each key once: every connection has a range of its own.
    EachOnce,
    /// Counting up: the connections take turns, and after the last key comes the first again.
    Sequential,
}

/// The key numbers of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    Uniform { keyspace: u64 },
    Each(Range<u64>),
    Turns(Turns),
}

impl Keys {
    /// The keys of connection `index` of `clients`; in turn it takes `numbers` of them.
    pub fn new(order: KeyOrder, keyspace: u64, index: usize, clients: usize, numbers: u64) -> Keys {
        match order {
            KeyOrder::Uniform => Keys::Uniform { keyspace },
            KeyOrder::EachOnce => {
                let part = share(keyspace, index, clients);
                Keys::Each(part.first..part.first + part.count)
            }
            KeyOrder::Sequential => Keys::Turns(Turns::new(keyspace, index, clients, numbers.max(1))),
        }
    }

    #[inline(always)]
    pub fn next(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Keys::Uniform { keyspace } => rng.below(*keyspace),
            Keys::Each(range) => range.next().unwrap_or(range.end),
            Keys::Turns(turns) => turns.next(),
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
            .map(|index| Keys::new(KeyOrder::Sequential, keyspace, index, clients, block))
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
