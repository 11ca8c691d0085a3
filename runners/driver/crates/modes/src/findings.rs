//! What a mode found out besides the counts and latencies of its requests.

use serde::Serialize;

use crate::openings::Connections;
use crate::replay::Replayed;
use crate::{blocking, pubsub};

/// What a mode found out besides the counts and latencies of its requests; none of what it does not look at.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub connections: Option<Connections>,
    pub fanout: Option<pubsub::Fanout>,
    pub wakeup: Option<blocking::Wakeup>,
    /// Left out unless a recording was played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replayed>,
}
