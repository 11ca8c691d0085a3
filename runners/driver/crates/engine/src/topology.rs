//! The nodes of a load as they are now: a thread of its own asks a cluster again when a connection has met a change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cluster;
use crate::node::Node;
use network::target::Target;

/// How often it is looked whether a change was met.
pub const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Between two questions, and how long a node may take to answer.
const ASK_EVERY: Duration = Duration::from_millis(100);
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The nodes of a load.
pub struct Topology {
    nodes: Mutex<Arc<[Node]>>,
    /// Grows with each change.
    version: AtomicU64,
    wanted: AtomicBool,
    ended: AtomicBool,
}

impl Topology {
    pub fn new(nodes: &[Node]) -> Topology {
        Topology {
            nodes: Mutex::new(nodes.into()),
            version: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }
    }

    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub fn nodes(&self) -> Arc<[Node]> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ask the cluster again, soon.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// No more questions.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Keep the nodes of a cluster as they are, until the end.
    pub fn keep(&self, seeds: &[Node]) {
        let mut asked: Option<Instant> = None;
        while !self.ended.load(Ordering::Relaxed) {
            let may_ask = asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY);
            if may_ask && self.wanted.swap(false, Ordering::Relaxed) {
                self.refresh(seeds);
                asked = Some(Instant::now());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Take over the slots as the first node that knows all of them tells.
    fn refresh(&self, seeds: &[Node]) {
        let nodes = self.nodes();
        for node in nodes.iter().chain(seeds) {
            let target = Target { timeout: node.target.timeout.min(ANSWERS_WITHIN), ..node.target.clone() };
            if let Ok(masters) = cluster::masters(&target) {
                self.set(&nodes, masters);
                return;
            }
        }
    }

    fn set(&self, before: &[Node], now: Vec<Node>) {
        let now = rearranged(before, now);
        if !is_same(before, &now) {
            *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = now.into();
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

fn is_same(before: &[Node], now: &[Node]) -> bool {
    let pairs = || before.iter().zip(now);
    before.len() == now.len()
        && pairs().all(|(a, b)| a.target.address == b.target.address && a.tags == b.tags)
}

/// `now` in the order of `before`: nodes that stayed keep their places, and the places of those that went go to new ones.
fn rearranged(before: &[Node], mut now: Vec<Node>) -> Vec<Node> {
    let mut places: Vec<Option<Node>> = before
        .iter()
        .map(|old| {
            let at = now.iter().position(|node| node.target.address == old.target.address);
            at.map(|at| now.remove(at))
        })
        .collect();
    let mut new = now.into_iter();
    places.iter_mut().filter(|place| place.is_none()).for_each(|place| *place = new.next());
    places.into_iter().flatten().chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::dialect::Dialect;
    use network::sources::Sources;
    use network::target::Address;

    fn node(port: u16) -> Node {
        let address = Address::Tcp { host: "a".to_owned(), port };
        let timeout = Duration::from_secs(1);
        let (greeting, sources) = (Vec::new(), Sources::default());
        let dialect = Dialect::Resp;
        let target = Target { address, dialect, tls: None, greeting, timeout, sources, mptcp: false };
        Node::of(target)
    }

    fn ports(before: &[u16], now: &[u16]) -> Vec<String> {
        let nodes = |ports: &[u16]| ports.iter().map(|port| node(*port)).collect::<Vec<_>>();
        let arranged = rearranged(&nodes(before), nodes(now));
        arranged.iter().map(|node| node.target.address.to_string()).collect()
    }

    #[test]
    fn nodes_that_stay_keep_their_places() {
        assert_eq!(ports(&[1, 2, 3], &[4, 3, 1]), ["tcp:a:1", "tcp:a:4", "tcp:a:3"]);
        assert_eq!(ports(&[1, 2], &[5, 2, 1]), ["tcp:a:1", "tcp:a:2", "tcp:a:5"]);
        assert_eq!(ports(&[1, 2, 3], &[3, 1]), ["tcp:a:1", "tcp:a:3"]);
    }
}
