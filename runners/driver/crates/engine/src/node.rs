//! A server that takes a part of the connections.

use crate::fill_source::Tags;
use crate::spread::Share;
use network::target::{Target, remedy_of};
use protocol::reply::Reply;
use text::failure::Failure;

/// A server that takes a part of the connections.
#[derive(Clone)]
pub struct Node {
    pub target: Target,
    /// Hash tags of the slots it serves; empty without a cluster.
    pub tags: Tags,
    /// The keys that belong to it, where those of the load are spread over several servers.
    pub share: Option<Share>,
}

impl Node {
    /// A server that takes all keys.
    pub fn of(target: Target) -> Node {
        Node { target, tags: [].into(), share: None }
    }

    /// The same node, whose sessions begin with more commands.
    pub fn greeted(&self, more: &[Vec<String>]) -> Node {
        let mut node = self.clone();
        node.target.greeting.extend_from_slice(more);
        node
    }
}

/// Send `words` to each node; a refusal ends the run.
pub fn prepare(nodes: &[Node], words: &[String]) -> Result<(), Failure> {
    for node in nodes {
        if let Reply::Error(text) = node.target.query(words)? {
            let command = words[..words.len().min(2)].join(" ");
            return Err(Failure::run(
                format!("the server answered {command} with an error, -{text}"),
                remedy_of(&text, "use a server that knows the command"),
            ));
        }
    }
    Ok(())
}
