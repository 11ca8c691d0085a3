//! The commands that the options of memtier_benchmark stand for, with the rows of its outputs.

use crate::arguments::{Given, cannot_be};
use crate::memtier_benchmark::command_texts::Text;
use crate::memtier_benchmark::monitor::Monitored;
use crate::memtier_benchmark::options::Options;
use protocol::expectation::{Expectation, ReplyType};
use protocol::template::ITEM_KEY;
use text::checks::require;
use text::failure::Failure;
use text::words;
use workload::order::Order;
use workload::protocol_name::ProtocolName;

/// The order of the commands has a place for each.
const MOST_WEIGHT: u64 = 10_000_000;
/// `STORED`, and the answer of WAIT with fewer than ten replicas.
const STORED_BYTES: u64 = 8;
const WAIT_BYTES: u64 = 4;

/// What is sent, and the rows in which it is counted.
pub struct Commands {
    pub list: Vec<Command>,
    /// The names of the rows, in capitals.
    pub rows: Vec<String>,
    /// Whether they are sets, gets and waits, and not arbitrary commands.
    pub usual: bool,
    /// How they follow each other.
    pub order: Order,
}

#[derive(Clone)]
pub struct Command {
    /// With placeholders; empty for memcached, whose tests have names.
    pub words: Vec<Vec<u8>>,
    /// Whether it sets the next item of a file.
    pub sets_item: bool,
    /// Its place in the rows.
    pub row: usize,
    pub weight: u64,
    pub pattern: char,
    /// Keys that it gets; each is a hit or a miss.
    pub keys: u64,
    /// The length of its reply, if that is always the same.
    pub reply_bytes: Option<u64>,
}

const SET: usize = 0;
const GET: usize = 1;
const WAIT: usize = 2;

impl Options {
    pub fn commands(&self, given: &Given) -> Result<Commands, Failure> {
        let texts = self.load.texts(given)?;
        let texts = match &self.load.monitor_input {
            Some(path) => Monitored::read(path)?.fill(&texts, self.load.monitor_random)?,
            None => texts,
        };
        let commands = match texts.as_slice() {
            [] if !self.load.scan_incremental => self.usual()?,
            texts if self.load.scan_incremental => self.scan(texts)?,
            texts => self.arbitrary(texts)?,
        };
        let total = commands
            .list
            .iter()
            .try_fold(0u64, |sum, command| sum.checked_add(command.weight))
            .unwrap_or(u64::MAX);
        require(
            (1..=MOST_WEIGHT).contains(&total),
            "the ratios add up to 0 or more than 10000000",
            "give smaller ones",
        )?;
        Ok(commands)
    }

    /// Sets, gets and waits in their ratios.
    fn usual(&self) -> Result<Commands, Failure> {
        let resp = self.server.protocol.name == ProtocolName::Resp;
        let ([sets, gets], [set_pattern, get_pattern]) = (self.load.ratio, self.data.key_pattern);
        let [per_set, waits] = self.load.wait_ratio.unwrap_or([1, 0]);
        require(per_set > 0, "--wait-ratio begins with 0", "give sets above 0")?;
        let weight = |count: u64| count.saturating_mul(per_set);
        let command = |words: &[String], row: usize, weight: u64, keys: u64| Command {
            words: words.iter().map(|word| word.clone().into_bytes()).collect(),
            sets_item: row == SET && self.import.file.is_some(),
            row,
            weight,
            pattern: [set_pattern, get_pattern, 'R'][row],
            keys,
            reply_bytes: [Some(if resp { 5 } else { STORED_BYTES }), None, Some(WAIT_BYTES)][row],
        };
        let key = self.key();
        let end = if self.data.ttl.is_some() { ["EX", "__ttl__"].as_slice() } else { &[] };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let set = words(&[["SET", &key, "__data__"].as_slice(), end].concat());
        let at_once = self.load.multi_key_get.map(|most| most.min(gets.max(1)));
        let mget = |keys: u64| [words(&["MGET"]), vec![key.clone(); keys as usize]].concat();
        let reading = match at_once {
            None => vec![command(&words(&["GET", &key]), GET, weight(gets), 1)],
            Some(keys) => vec![
                command(&mget(keys), GET, weight(gets / keys), keys),
                command(&mget(gets % keys), GET, weight(u64::from(!gets.is_multiple_of(keys))), gets % keys),
            ],
        };
        let number = |number: Option<u64>| number.unwrap_or(0).to_string();
        let wait = words(&["WAIT", &number(self.load.replicas), &number(self.load.wait_timeout)]);
        let list = [command(&set, SET, weight(sets), 0)].into_iter().chain(reading).chain([command(
            &wait,
            WAIT,
            sets.saturating_mul(waits),
            0,
        )]);
        Ok(Commands {
            list: list.filter(|command| command.weight > 0).collect(),
            rows: words(&["SET", "GET", "WAIT"]),
            usual: true,
            order: Order::Decks,
        })
    }

    /// The commands of `texts`, those with the same name in one row.
    pub fn arbitrary(&self, texts: &[Text]) -> Result<Commands, Failure> {
        require(
            self.server.protocol.name == ProtocolName::Resp,
            "--command is given for memcache_text",
            "give --ratio",
        )?;
        let parts = texts.iter().filter(|text| text.pattern == 'P').count();
        require(
            parts == 0 || parts == texts.len(),
            "--command-key-pattern is P for some commands only",
            "give it to all",
        )?;
        let (mut list, mut rows): (Vec<Command>, Vec<String>) = (Vec::new(), Vec::new());
        for text in texts {
            let words = words::split(&text.text.replace("__key__", &self.key()));
            let words = words.filter(|words| !words.is_empty());
            let words = words.ok_or_else(|| cannot_be("--command", &text.text, "close its quotes"))?;
            let name = String::from_utf8_lossy(&words[0]).to_uppercase();
            let known = rows.iter().position(|row| *row == name).filter(|_| !self.result.by_line);
            let row = known.unwrap_or_else(|| {
                rows.push(name);
                rows.len() - 1
            });
            let reply_bytes = match Expectation::to(&words, 0).reply {
                ReplyType::Line(line) => Some(line.len() as u64 + 2),
                _ => None,
            };
            list.push(Command {
                words,
                sets_item: false,
                row,
                weight: text.ratio,
                pattern: text.pattern,
                keys: 0,
                reply_bytes,
            });
        }
        list.retain(|command| command.weight > 0);
        let random = self.load.monitor_input.is_some() && self.load.monitor_random;
        let order = if random { Order::Mix } else { Order::Decks };
        Ok(Commands { list, rows, usual: false, order })
    }

    /// A key: its prefix, in a cluster the tag of a slot, and its number.
    fn key(&self) -> String {
        if self.import.has_own_keys() {
            return ITEM_KEY.to_owned();
        }
        let tag = if self.server.cluster { "{tag}" } else { "" };
        format!("{}{tag}__key__", self.prefix())
    }
}
