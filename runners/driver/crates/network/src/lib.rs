//! Connections to a server: sockets, TLS, and the dialogue beside the load.

pub mod certificate;
pub mod channel;
pub mod ciphers;
pub mod dialect;
pub mod dialogue;
pub mod memcached;
pub mod opening;
pub mod sources;
pub mod target;
pub mod tls;
