//! The state of connections that were lost or refused.

use std::collections::HashMap;
use std::sync::Arc;

use crate::node::Node;
use crate::recovery::Losses;
use crate::stage::Span;
use crate::turn_queue::TurnQueue;
use crate::worker::redirecting::Channels;
use network::opening::Opening;
use network::target::Address;

/// Events of connections in trouble have tokens from here on.
pub const TROUBLED: usize = 1 << 32;

/// A connection that was lost or refused and has had no good reply since.
pub struct Trouble {
    pub since: u64,
    /// Pauses so far, and attempts to open it that failed in a row.
    pub pauses: u32,
    pub failed: u32,
    /// When the pause or the attempt ends.
    pub at: u64,
    /// Whether it is one of those that the loop waits for.
    pub is_busy: bool,
    /// Whether its channel can still be used.
    pub is_open: bool,
    pub state: State,
}

pub enum State {
    Pausing,
    Opening(Box<Opening>),
    OnTrial,
}

/// What a thread keeps of connections in trouble.
pub struct Troubles {
    pub by_token: HashMap<usize, Trouble>,
    pub retries: TurnQueue,
    pub losses: Losses,
    /// Where each connection leads; empty when a loss ends the run.
    pub addresses: Vec<Address>,
    /// The nodes as this thread knows them.
    pub nodes: Arc<[Node]>,
    pub version: u64,
    /// Blocking connections for redirected requests.
    pub redirected: Channels,
    /// The begin of the window.
    pub counts_from: u64,
}

impl Troubles {
    pub fn new(nodes: &[Node], addresses: Vec<Address>) -> Troubles {
        Troubles {
            by_token: HashMap::new(),
            retries: TurnQueue::default(),
            losses: Losses::default(),
            addresses,
            nodes: nodes.into(),
            version: 0,
            redirected: Channels::new(),
            counts_from: 0,
        }
    }

    pub fn begin(&mut self, span: &Span) {
        self.counts_from = span.counts_from;
        self.losses = Losses::default();
        // A trouble that lasts is one of the new span, too.
        self.by_token.values_mut().for_each(|trouble| trouble.since = trouble.since.max(span.begins_at));
    }

    /// The node of connection `index`.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index % self.nodes.len()]
    }

    pub fn is_troubled(&self) -> bool {
        !self.by_token.is_empty() || !self.addresses.is_empty()
    }

    /// The token of the events of connection `token`.
    pub fn event_token(&self, token: usize) -> usize {
        if self.by_token.contains_key(&token) { token + TROUBLED } else { token }
    }

    /// Count errors within the window.
    pub fn count_errors(&mut self, now: u64, errors: u64) {
        if now >= self.counts_from {
            self.losses.count_errors(now - self.counts_from, errors);
        }
    }
}
