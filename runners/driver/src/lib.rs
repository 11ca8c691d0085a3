//! The load driver of SpeedTrack. `README.md` says what is counted, where the clock is read, and what each field means.
//!
//! A run reads `cli` -> `session` (prefill, then each test) -> `crew` (threads) -> `worker` (the loop) -> `document`.

pub mod batch;
pub mod cli;
pub mod connection;
pub mod crew;
pub mod digits;
pub mod document;
pub mod failure;
pub mod histogram;
pub mod meter;
pub mod net;
pub mod proto;
pub mod rng;
pub mod session;
pub mod stage;
pub mod steadiness;
pub mod sys;
pub mod table;
pub mod worker;
