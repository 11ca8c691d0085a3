//! Random streams, and the keys and values that they make.

pub mod digits;
pub mod dump;
pub mod items;
pub mod keys;
pub mod rng;
pub mod share;
pub mod skew;
pub mod values;
