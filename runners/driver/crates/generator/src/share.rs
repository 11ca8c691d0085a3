//! Even shares.

/// The part of `all` things that falls to one of several takers: `count` of them, beginning at `first`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub first: u64,
    pub count: u64,
}

/// Even shares; what does not divide goes to the first takers.
pub fn share(all: u64, index: usize, takers: usize) -> Share {
    let (index, takers) = (index as u64, takers as u64);
    let (each, rest) = (all / takers, all % takers);
    Share { first: index * each + index.min(rest), count: each + u64::from(index < rest) }
}
