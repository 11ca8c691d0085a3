//! Load on memcached: its tests, and the keys that they need.

pub mod load;
pub mod suite;
