//! Beside the real ones: Debian's redis-server, redis-benchmark, redis-cli and openssl must be installed.
//!
//! `cargo test --features real-servers` runs them; without the feature they are not built.

mod cluster;
mod counts;
mod machine;
mod output;
mod tls;
mod wire;
