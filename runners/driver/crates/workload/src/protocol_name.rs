//! The protocol that the server speaks.

use serde::{Deserialize, Serialize};

/// The protocol that the server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    #[default]
    Resp,
    Memcached,
}

impl Protocol {
    pub const ALL: [Protocol; 2] = [Protocol::Resp, Protocol::Memcached];

    pub fn name(self) -> &'static str {
        match self {
            Protocol::Resp => "resp",
            Protocol::Memcached => "memcached",
        }
    }

    /// The port on which servers of the protocol usually are.
    pub fn port(self) -> u16 {
        match self {
            Protocol::Resp => 6379,
            Protocol::Memcached => 11211,
        }
    }
}
