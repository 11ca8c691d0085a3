//! Which connection of a thread has its turn next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Connections with the moments of their turns, ns on the monotonic clock. Each connection is in it at most once.
#[derive(Default)]
pub struct TurnQueue {
    turns: BinaryHeap<Reverse<(u64, usize)>>,
}

impl TurnQueue {
    pub fn put(&mut self, at: u64, token: usize) {
        self.turns.push(Reverse((at, token)));
    }

    /// The earliest turn; `u64::MAX` when there is none.
    #[inline]
    pub fn next_at(&self) -> u64 {
        self.turns.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }

    /// Take out the connection whose turn was the earliest up to `now`.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<usize> {
        if self.next_at() > now {
            return None;
        }
        self.turns.pop().map(|Reverse((_, token))| token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_in_order_and_not_before_their_time() {
        let mut turns = TurnQueue::default();
        for (at, token) in [(30, 0), (10, 1), (20, 2)] {
            turns.put(at, token);
        }
        assert_eq!((turns.next_at(), turns.take(9)), (10, None));
        assert_eq!((turns.take(25), turns.take(25), turns.take(25)), (Some(1), Some(2), None));
        assert_eq!((turns.take(30), turns.next_at()), (Some(0), u64::MAX));
    }
}
