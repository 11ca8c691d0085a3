//! What the driver does from end to end, in one program: each program of tests would be linked with the whole driver anew.
//!
//! `cargo test --test all memtier::` runs the tests of one module.

mod compare;
mod cut_short;
mod distributions;
mod duel;
mod duel_failures;
mod failures;
mod golden;
mod join;
mod ladder;
mod memtier;
mod modules;
mod null_server;
mod output;
mod passwords;
mod rates;
#[cfg(feature = "real-servers")]
mod real_servers;
mod redis_benchmark;
mod replay;
mod run;
mod slow;
mod support;
mod warmup;
mod workload_files;
mod wrong_replies;
