//! A cluster: which of its nodes serve which slots, and hash tags that lead to them.

use crate::fill_source::Tags;
use crate::node::Node;
use network::target::{Address, Target};
use protocol::reply::Reply;
use protocol::template::TAG_WIDTH;
use text::failure::Failure;

const SLOTS: usize = 16_384;
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The command by which a replica answers reads itself.
pub const READONLY: &str = "READONLY";

/// The nodes of a cluster that are loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Roles {
    #[default]
    Masters,
    Replicas,
    All,
}

impl Roles {
    fn include(self, is_replica: bool) -> bool {
        match self {
            Roles::Masters => !is_replica,
            Roles::Replicas => is_replica,
            Roles::All => true,
        }
    }
}

pub struct Member {
    /// The id that the cluster knows it by.
    pub name: String,
    pub is_replica: bool,
    pub node: Node,
}

/// The masters of the cluster to which `seed` belongs, each with tags of all its slots.
pub fn masters(seed: &Target) -> Result<Vec<Node>, Failure> {
    Ok(nodes(seed, Roles::Masters)?.into_iter().map(|master| master.node).collect())
}

/// The nodes of these `roles` in the cluster to which `seed` belongs, each with tags of all its slots.
pub fn nodes(seed: &Target, roles: Roles) -> Result<Vec<Member>, Failure> {
    let answer = seed.query(&["CLUSTER", "SLOTS"])?;
    if let Reply::Error(text) = &answer {
        return Err(Failure::run(
            format!("{} answered CLUSTER SLOTS with an error, -{text}", seed.address),
            "leave --cluster out, or give a node of a cluster",
        ));
    }
    let ranges: Vec<Range> = answer.list().iter().filter_map(Range::read).collect();
    let served: usize = ranges.iter().map(|range| range.slots.len()).sum();
    if served < SLOTS || ranges.len() < answer.list().len() {
        return Err(Failure::run(
            format!("only {served} of {SLOTS} slots of the cluster are served"),
            "repair the cluster (redis-cli --cluster check)",
        ));
    }
    let members = members(seed, &ranges, roles);
    match members.is_empty() {
        true => Err(Failure::run("the cluster has no replicas", "leave --rfr out, or add replicas to it")),
        false => Ok(members),
    }
}

/// Which of the nodes of a cluster serves each slot.
pub struct SlotOwners(Box<[usize]>);

impl SlotOwners {
    /// Those of `nodes`, by their places among them.
    pub fn of(nodes: &[Node]) -> SlotOwners {
        let mut owners = vec![0; SLOTS];
        for (at, node) in nodes.iter().enumerate() {
            node.tags.iter().for_each(|tag| owners[slot(&tag[1..TAG_WIDTH - 1])] = at);
        }
        SlotOwners(owners.into())
    }

    /// The place of the node to which `key` belongs, which has no tag.
    pub fn node(&self, key: &[u8]) -> usize {
        self.0[slot(key)]
    }
}

/// A range of slots and the servers of it: the master, then its replicas.
struct Range {
    slots: std::ops::Range<usize>,
    servers: Vec<Server>,
}

#[derive(PartialEq, Eq)]
struct Server {
    host: Option<String>,
    port: u16,
    name: String,
}

impl Range {
    fn read(range: &Reply) -> Option<Range> {
        let [first, last, servers @ ..] = range.list() else { return None };
        let (first, last) = (usize::try_from(first.number()?).ok()?, usize::try_from(last.number()?).ok()?);
        let servers: Vec<Server> = servers.iter().map_while(Server::read).collect();
        (!servers.is_empty()).then_some(Range { slots: first..(last + 1).min(SLOTS), servers })
    }
}

impl Server {
    fn read(server: &Reply) -> Option<Server> {
        let [host, port, rest @ ..] = server.list() else { return None };
        Some(Server {
            // A node that does not know its own address is reached under the one that was asked.
            host: host.text().filter(|host| !host.is_empty() && host != "?"),
            port: u16::try_from(port.number()?).ok()?,
            name: rest.first().and_then(Reply::text).unwrap_or_default(),
        })
    }

    fn address(&self, seed: &Target) -> Address {
        let host = match (&self.host, &seed.address) {
            (Some(host), _) => host.clone(),
            (None, Address::Tcp { host, .. }) => host.clone(),
            (None, Address::Unix { .. }) => "127.0.0.1".to_owned(),
        };
        Address::Tcp { host, port: self.port }
    }
}

fn members(seed: &Target, ranges: &[Range], roles: Roles) -> Vec<Member> {
    let tags = tags();
    let mut members: Vec<(&Server, bool, Vec<usize>)> = Vec::new();
    for range in ranges {
        for (at, server) in range.servers.iter().enumerate().filter(|(at, _)| roles.include(*at > 0)) {
            match members.iter_mut().find(|(other, ..)| *other == server) {
                Some((.., slots)) => slots.extend(range.slots.clone()),
                None => members.push((server, at > 0, range.slots.clone().collect())),
            }
        }
    }
    let member = |(server, is_replica, slots): (&Server, bool, Vec<usize>)| {
        let tags: Tags = slots.into_iter().map(|slot| tags[slot]).collect();
        let target = Target { address: server.address(seed), ..seed.clone() };
        let node = Node { tags, ..Node::of(target) };
        let readonly = vec![READONLY.to_owned()];
        let node = if is_replica { node.greeted(&[readonly]) } else { node };
        Member { name: server.name.clone(), is_replica, node }
    };
    members.into_iter().map(member).collect()
}

/// For each slot the first tag of three letters that hashes to it.
fn tags() -> Vec<[u8; TAG_WIDTH]> {
    let mut tags = vec![None; SLOTS];
    for number in 0..LETTERS.len().pow(3) {
        let letter = |at: usize| LETTERS[number / LETTERS.len().pow(at as u32) % LETTERS.len()];
        let text = [letter(2), letter(1), letter(0)];
        tags[slot(&text)].get_or_insert([b'{', text[0], text[1], text[2], b'}']);
    }
    tags.into_iter().map(|tag| tag.expect("three letters reach every slot")).collect()
}

/// The slot of a key without a tag, or of the text inside a tag: CRC-16/XMODEM modulo the number of slots.
fn slot(key: &[u8]) -> usize {
    let step = |crc: u16, byte: &u8| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    };
    usize::from(key.iter().fold(0, step)) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(b"123456789"), 0x31c3 % SLOTS);
        assert_eq!(slot(b"foo"), 12182);
        let tags = tags();
        assert!(tags.iter().enumerate().all(|(at, tag)| slot(&tag[1..4]) == at));
    }
}
