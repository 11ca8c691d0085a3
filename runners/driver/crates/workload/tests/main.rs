//! The memcached load, in one program.

mod memcached_bytes;
mod memcached_skipper;
#[path = "../../protocol/tests/reference/mod.rs"]
mod reference;
