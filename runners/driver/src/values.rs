//! How long values are, and how long they live.

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
