//! Even shares.

/// One part of a division into even shares: `count` things, beginning at `first`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub first: u64,
    pub count: u64,
}

/// Divide `all` evenly; the remainder goes to the first shares.
pub fn share(all: u64, index: usize, takers: usize) -> Share {
    let (index, takers) = (index as u64, takers as u64);
    let (each, rest) = (all / takers, all % takers);
    Share { first: index * each + index.min(rest), count: each + u64::from(index < rest) }
}
