//! What a run is asked to do: workloads, phases and plans, and the files that describe them.

pub mod file;
pub mod filling;
pub mod key_name;
pub mod ladder;
pub mod limits;
pub mod memcached;
pub mod mode;
pub mod order;
pub mod phase;
pub mod phase_check;
pub mod plan;
pub mod protocol_name;
pub mod ramp;
pub mod source;
pub mod traffic;
pub mod workload;
