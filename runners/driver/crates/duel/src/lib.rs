//! Two servers measured beside each other: short slices of load alternate between them.

pub mod contest;
pub mod document;
pub mod estimate;
pub mod measure;
pub mod plan;
pub mod prefill;
pub mod ratio;
pub mod run;
mod server_use;
pub mod sides;
pub mod table;
pub mod tally;
pub mod verdict;
pub mod warmup;
