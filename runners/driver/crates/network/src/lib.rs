//! Connections to a server: sockets, TLS, and the dialogue beside the load.

pub mod channel;
pub mod dialogue;
pub mod memcached;
pub mod opening;
pub mod sources;
pub mod target;
pub mod tls;
