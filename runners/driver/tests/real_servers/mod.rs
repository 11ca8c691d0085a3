//! Beside the real ones: Debian's redis-server, redis-benchmark, redis-cli, memcached and openssl must be installed.
//!
//! `cargo test --features real-servers` runs them; without the feature they are not built.

mod cluster;
mod counts;
mod dataset;
mod duel;
mod going_on;
mod html;
mod join;
mod ladder;
mod live;
mod machine;
mod memcached;
mod memcached_access;
mod memcached_server;
mod memcached_spread;
mod memtier;
mod metrics;
mod modes;
mod output;
mod replay;
mod tls;
mod wire;
