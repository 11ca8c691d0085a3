//! The protocol that the server speaks.

use serde::{Deserialize, Serialize};

use network::dialect::Dialect;

/// The protocol that the server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolName {
    #[default]
    Resp,
    Memcached,
}

impl ProtocolName {
    pub const ALL: [ProtocolName; 2] = [ProtocolName::Resp, ProtocolName::Memcached];

    pub fn name(self) -> &'static str {
        match self {
            ProtocolName::Resp => "resp",
            ProtocolName::Memcached => "memcached",
        }
    }

    /// In which sessions begin.
    pub fn dialect(self) -> Dialect {
        match self {
            ProtocolName::Resp => Dialect::Resp,
            ProtocolName::Memcached => Dialect::Memcached,
        }
    }

    /// The port on which servers of the protocol usually are.
    pub fn port(self) -> u16 {
        match self {
            ProtocolName::Resp => 6379,
            ProtocolName::Memcached => 11211,
        }
    }
}
