//! The load: connections on threads, their schedule, and what is counted of them.

pub mod batch;
pub mod cluster;
pub mod connected;
pub mod connection;
mod copy;
pub mod fill_source;
pub mod histogram;
pub mod job;
pub mod latency;
pub mod liveness;
pub mod meter;
pub mod node;
pub mod outcome;
pub mod pace;
pub mod probe;
pub mod progress;
pub mod record;
pub mod resources;
pub mod schedule;
pub mod server_process;
pub mod stage;
pub mod steadiness;
pub mod total;
pub mod turn_queue;
pub mod verified;
pub mod worker;
pub mod workers;
