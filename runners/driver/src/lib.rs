//! The load driver of SpeedTrack. `README.md` says what is counted, where the clock is read, and what each field means.
//!
//! A run reads `cli` or `workload_file` -> `plan` -> `session` (each phase: prefill, then load) -> `crew` (threads) -> `worker` (the loop) -> `document`.

pub mod batch;
pub mod channel;
pub mod cli;
pub mod cluster;
pub mod connection;
pub mod crew;
pub mod csv;
pub mod dial;
pub mod digits;
pub mod document;
pub mod endpoint;
pub mod environment;
pub mod failure;
pub mod hdr_log;
pub mod histogram;
pub mod job;
pub mod keys;
pub mod memcached;
pub mod memcached_benchmark;
pub mod meter;
pub mod modes;
pub mod net;
pub mod pace;
pub mod plan;
pub mod progress;
pub mod proto;
pub mod redis_benchmark;
pub mod rng;
pub mod session;
pub mod skew;
pub mod stage;
pub mod steadiness;
pub mod sys;
pub mod table;
pub mod template;
pub mod tls;
pub mod uri;
pub mod values;
pub mod words;
pub mod worker;
pub mod workload;
pub mod workload_file;
