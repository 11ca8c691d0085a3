//! One workload against one server or cluster, as a value that all threads read.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::batch::{Batch, Replay};
use crate::connection::{ConnectionError, NEVER};
use crate::fill_source::FillSource;
use crate::jitter::Jitter;
use crate::node::Node;
use crate::probe::Probe;
use crate::recovery::Recovery;
use crate::scoreboard::Scoreboard;
use crate::stairs::Stairs;
use crate::table::Table;
use generator::items::{ItemSource, Items};
use generator::keys::{KeyOrder, Keys};
use generator::rng::Rng;
use generator::values::ValuePool;
use machine::counters::Counters;
use network::dialect::Dialect;
use network::target::remedy_of;
use protocol::replies::{Protocol, Tally};
use protocol::script::Script;
use protocol::template::SHARED;
use text::failure::{Failure, machine_failure};

/// When a connection sends again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// When all replies to the batch are in: the whole next batch.
    Batch,
    /// After each reply: as many requests as there were replies.
    Rolling,
}

/// A command of the script with its name in results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCommand {
    pub name: String,
    /// Whether an empty reply means that the key was not there.
    pub reads: bool,
}

pub struct Job {
    pub name: String,
    /// At least one; connection `i` goes to node `i` modulo their number.
    pub nodes: Vec<Node>,
    pub script: Arc<Script>,
    /// The commands of the script in its order; empty when results do not list them.
    pub named_commands: Vec<NamedCommand>,
    pub clients: usize,
    /// The numbers of the connections that this process opens: all, unless other load machines share the load.
    pub own_clients: Range<usize>,
    pub threads: usize,
    /// Units of the script per batch, or in flight.
    pub pipeline: usize,
    pub window: Window,
    /// Requests per second of all connections together.
    pub rate: Option<f64>,
    /// Whether connections are opened step by step; none: all before the load begins.
    pub stairs: Option<Stairs>,
    /// The pauses between the connections that a thread opens before the load; none: one after the other at once.
    pub jitter: Option<Jitter>,
    /// Whether all connections draw the same keys and values, one after the other.
    pub alike: bool,
    /// Whether each connection is counted by itself, too.
    pub by_client: bool,
    /// Whether a connection is used for more than one batch.
    pub keepalive: bool,
    /// The number of requests after which a connection is replaced.
    pub reconnect_after: Option<u64>,
    pub keyspace: u64,
    pub key_order: KeyOrder,
    /// The order of each command's keys, when key numbers have no leading zeros; else empty.
    pub command_key_orders: Vec<KeyOrder>,
    pub values: ValuePool,
    /// The dump whose items are set, if one is.
    pub items: Option<Items>,
    /// The table whose fields commands hold, if they do.
    pub table: Option<Arc<Table>>,
    pub seed: u64,
    pub probe: Option<Probe>,
    /// CPU of each thread, that of the probe last; empty when they are not pinned.
    pub cpus: Vec<usize>,
    pub server_pid: Option<u32>,
    /// What the kernel counts of the server, or why it does not.
    pub counters: Option<Arc<Result<Counters, String>>>,
    pub slice_ns: u64,
    /// Slices per interval of the log, if there is one.
    pub interval_slices: Option<usize>,
    pub allow_errors: bool,
    pub verify: Option<Verify>,
    /// How the load goes on when connections are lost; none: that ends the run.
    pub recovery: Option<Recovery>,
    /// When the load begins, monotonic ns; none: as soon as all connections are open.
    pub begins_at: Option<u64>,
    /// Where views see its progress, if there are any.
    pub scoreboard: Option<Arc<Scoreboard>>,
}

/// Which values that are read are compared with those that were stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Verify {
    /// Their share.
    pub share: f64,
    /// For each command of the script, whether it reads one value.
    pub reading: Vec<bool>,
}

impl Job {
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index % self.nodes.len()]
    }

    /// Whether its nodes are those of a cluster.
    pub fn is_clustered(&self) -> bool {
        !self.nodes[0].tags.is_empty()
    }

    /// After so many requests a connection is replaced.
    pub fn reconnect_at(&self) -> u64 {
        let after = self.reconnect_after.unwrap_or(NEVER);
        if self.keepalive { after } else { 1 }
    }

    pub fn timeout_ns(&self) -> u64 {
        self.nodes[0].target.timeout.as_nanos() as u64
    }

    /// Those of the load and those of the probe, which have the last numbers.
    pub fn connections(&self) -> usize {
        self.clients + self.probe.map_or(0, |probe| probe.clients)
    }

    /// Requests that a connection may have in flight.
    pub fn window_requests(&self) -> usize {
        self.pipeline * self.script.unit()
    }

    /// A failure when the items of the dump could not be read any more.
    pub fn check_items(&self) -> Result<(), Failure> {
        let fault = self.items.as_ref().and_then(|items| items.dump.fault());
        fault.map_or(Ok(()), |fault| {
            Err(Failure::run(
                format!("the file of items has changed: {fault}"),
                "leave it as it is while it is sent",
            ))
        })
    }

    /// The requests of connection `index`. They depend on the seed and on `index`, not on the thread.
    pub fn batch(&self, index: usize) -> Batch {
        let script = &self.script;
        let partial = self.window == Window::Rolling && script.commands.len() > 1;
        Batch::new(script.clone(), self.pipeline, script.is_cut() || partial, self.fill_source(index))
    }

    /// What [`Job::batch`] of `index` sends, again.
    pub fn replay(&self, index: usize) -> Replay {
        Replay::new(self.script.clone(), self.fill_source(index))
    }

    fn fill_source(&self, index: usize) -> FillSource {
        FillSource {
            keys: self.slot_keys(index, 0),
            shared_keys: self.shared_keys(index),
            command_keys: self.command_keys(index),
            values: self.values.clone(),
            rng: Rng::stream(self.seed, if self.alike { 0 } else { index as u64 }),
            tags: self.node(index).tags.clone(),
            sequence: index as u64,
            clients: self.connections() as u64,
            reply: Vec::new(),
            table: self.table.clone(),
            items: self.items.clone().map(|items| Box::new(ItemSource::new(items))),
        }
    }

    fn keys(&self, order: &KeyOrder, index: usize, numbers: u64) -> Keys {
        Keys::new(order, self.keyspace, index, self.connections(), numbers)
    }

    fn slot_keys(&self, index: usize, slot: u8) -> Keys {
        let (numbers, nodes) = (self.script.numbers_per_unit(slot), self.nodes.len());
        match &self.node(index).share {
            None => self.keys(&self.key_order, index, numbers),
            // Connections take the nodes in turn.
            Some(share) => {
                let clients = (self.connections() - index % nodes).div_ceil(nodes);
                share.keys(index / nodes, clients, numbers)
            }
        }
    }

    fn shared_keys(&self, index: usize) -> Vec<Keys> {
        let slots = if self.key_order.counts() { 1..SHARED as u8 } else { 0..0 };
        slots.map(|slot| self.slot_keys(index, slot)).collect()
    }

    fn command_keys(&self, index: usize) -> Vec<Keys> {
        let orders = self.command_key_orders.iter().zip(&self.script.commands);
        orders.map(|(order, command)| self.keys(order, index, command.numbers())).collect()
    }

    /// Refuse error replies, unless they were allowed. `error_mark` stands before their text.
    #[inline]
    pub fn check_errors(&self, tally: &Tally, error_mark: &str) -> Result<(), Failure> {
        match &tally.first_error {
            Some(text) if !self.allow_errors => Err(self.error_reply_failure(text, error_mark)),
            _ => Ok(()),
        }
    }

    /// The failure of connection `index`, which can no longer be used.
    #[cold]
    pub fn connection_failure<P: Protocol>(&self, index: usize, broken: ConnectionError) -> Failure {
        let (test, address) = (&self.name, &self.node(index).target.address);
        match broken {
            ConnectionError::Closed => Failure::run(
                format!("{} closed connection {index} during {test}", self.server_name(index)),
                "look at the server's log and its limit of clients",
            ),
            ConnectionError::ProtocolError(garbage) => Failure::run(
                format!("wrong answer to {test} on connection {index}, {}", garbage.0),
                match self.values.is_keyed() {
                    false => format!("check that {address} speaks {}", P::NAME),
                    true => format!("check that {address} speaks {}, and who else writes its keys", P::NAME),
                },
            ),
            ConnectionError::Io(error) if error.kind() == io::ErrorKind::InvalidData => Failure::run(
                format!("TLS broke on connection {index} during {test} ({error})"),
                "look at the server's log and at its TLS settings",
            ),
            ConnectionError::Io(error) => machine_failure(error),
        }
    }

    /// The server of connection `index`: its address, if there are several.
    fn server_name(&self, index: usize) -> String {
        match self.nodes.len() {
            1 => "the server".to_owned(),
            _ => self.node(index).target.address.to_string(),
        }
    }

    /// The failure of connection `index`, whose replies do not come.
    #[cold]
    pub fn silence_failure(&self, index: usize) -> Failure {
        let target = &self.node(index).target;
        let is_slow = "look at the server's log, or raise --timeout";
        let remedy = match (target.dialect, &target.tls) {
            (Dialect::Memcached, Some(_)) => &format!(
                "lower -P or -d: memcached with TLS may leave batches above 16 kB unread; or {is_slow}"
            ),
            _ => is_slow,
        };
        Failure::run(
            format!(
                "{} stopped answering {} on connection {index} for {:?}",
                self.server_name(index),
                self.name,
                target.timeout
            ),
            remedy,
        )
    }

    #[cold]
    fn error_reply_failure(&self, text: &str, mark: &str) -> Failure {
        let clustered = self.is_clustered();
        let remedy = match text.split(' ').next() {
            // What comes first on a connection is taken for a login, and refused as one.
            Some("CLIENT_ERROR") if text.contains("authentic") => "log in with -a and --user",
            Some("MOVED" | "ASK") if clustered => {
                "write {tag} into every key, only read with --rfr, and measure while no slots are being moved"
            }
            Some("MOVED" | "ASK" | "CROSSSLOT") => "the server is part of a cluster, give --cluster",
            Some("CLUSTERDOWN") => "repair the cluster (redis-cli --cluster check)",
            Some("NOAUTH" | "NOPERM" | "WRONGPASS") => "log in with -a and --user as a user that may do this",
            Some("SERVER_ERROR") => "give the server more memory (-m) or larger items (-I), or lower -d",
            Some("ERROR") if mark.is_empty() => "leave the test out, or use a server that knows the command",
            _ => "correct the server or the command, or count errors with `run --allow-errors`",
        };
        let cause = format!("the server answered {} with an error, {mark}{text}", self.name);
        Failure::run(cause, remedy_of(text, remedy))
    }
}
