//! The requests of one connection, rendered once and filled in place.

use std::sync::Arc;

use crate::digits;
use crate::keys::Keys;
use crate::rng::Rng;
use crate::template::{SHARED, Script, Step, TAG_WIDTH};

/// Values begin at one of this many places of the pool.
const VALUE_PLACES: u64 = 1 << 16;

/// Random bytes out of which all values are cut: values differ, and making one costs a copy.
#[derive(Clone)]
pub struct ValuePool(Arc<[u8]>);

impl ValuePool {
    /// The pool of `seed` for values of at most `value_bytes`. Its stream is one that no connection has.
    pub fn new(seed: u64, value_bytes: usize) -> ValuePool {
        let mut bytes = vec![0; value_bytes + VALUE_PLACES as usize];
        Rng::stream(seed, u64::MAX).fill(&mut bytes);
        ValuePool(bytes.into())
    }
}

/// The hash tags that lead to one node of a cluster; empty without a cluster.
pub type Tags = Arc<[[u8; TAG_WIDTH]]>;

/// What the places of a connection's commands are filled with.
pub struct Feed {
    pub keys: Keys,
    pub values: ValuePool,
    /// The stream of the connection.
    pub rng: Rng,
    pub tags: Tags,
    /// The number of the connection's next command among those of all, and how many connections there are.
    pub sequence: u64,
    pub clients: u64,
}

impl Feed {
    /// The usual command holds one number and nothing else. A loop of its own with the stream in registers saves 7%
    /// of the CPU time at -P 100.
    #[inline(always)]
    fn fill_number<'a>(&mut self, requests: impl Iterator<Item = &'a mut [u8]>, at: usize) {
        let mut rng = self.rng.clone();
        for request in requests {
            number(request, at, self.keys.next(&mut rng));
            self.sequence += self.clients;
        }
        self.rng = rng;
    }

    #[inline(always)]
    fn fill(&mut self, drawn: &mut Drawn, request: &mut [u8], steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Number { at } => number(request, at, self.keys.next(&mut self.rng)),
                Step::Value { at, bytes } => {
                    let from = self.rng.below(VALUE_PLACES) as usize;
                    request[at..at + bytes].copy_from_slice(&self.values.0[from..from + bytes]);
                }
                Step::Draw { slot } => drawn.numbers[usize::from(slot)] = self.keys.next(&mut self.rng),
                Step::Shared { at, slot } => number(request, at, drawn.numbers[usize::from(slot)]),
                Step::Sequence { at } => number(request, at, self.sequence % digits::LIMIT),
                Step::DrawTag => drawn.tag = self.rng.below(self.tags.len() as u64) as usize,
                Step::Tag { at } => request[at..at + TAG_WIDTH].copy_from_slice(&self.tags[drawn.tag]),
            }
        }
        self.sequence += self.clients;
    }
}

#[inline]
fn number(request: &mut [u8], at: usize, number: u64) {
    let place = request[at..].first_chunk_mut().expect("the template holds the digits");
    digits::write(place, number);
}

/// What the places of one command share.
#[derive(Default)]
struct Drawn {
    numbers: [u64; SHARED],
    tag: usize,
}

pub struct Batch {
    script: Arc<Script>,
    feed: Feed,
    drawn: Drawn,
    bytes: Vec<u8>,
    /// Whether commands are copied before they are filled, because others may have stood there before.
    copied: bool,
    /// Place in the script's order of the next command.
    next: usize,
}

impl Batch {
    /// Room for `units` units of the script. Batches that do not begin with a unit must be `copied`.
    pub fn new(script: Arc<Script>, units: usize, copied: bool, feed: Feed) -> Batch {
        let bytes = match copied {
            true => vec![0; script.batch_bytes(units)],
            false => rendered(&script).repeat(units),
        };
        let next = script.entry(feed.sequence as usize);
        Batch { script, feed, drawn: Drawn::default(), bytes, copied, next }
    }

    /// The bytes of the last prepared requests.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Fill the next `count` requests (at most what there is room for); their length in bytes.
    #[inline]
    pub fn prepare(&mut self, count: usize) -> usize {
        let [command] = self.script.commands.as_slice() else { return self.prepare_several(count) };
        let length = command.bytes.len();
        let requests = self.bytes.chunks_exact_mut(length).take(count);
        match command.steps[..] {
            [Step::Number { at }] => self.feed.fill_number(requests, at),
            _ => requests.for_each(|request| self.feed.fill(&mut self.drawn, request, &command.steps)),
        }
        count * length
    }

    #[inline(never)]
    fn prepare_several(&mut self, count: usize) -> usize {
        let mut end = 0;
        if !self.copied {
            self.next = 0;
        }
        for _ in 0..count {
            let command = &self.script.commands[usize::from(self.script.order[self.next])];
            let request = &mut self.bytes[end..end + command.bytes.len()];
            if self.copied {
                request.copy_from_slice(&command.bytes);
            }
            self.feed.fill(&mut self.drawn, request, &command.steps);
            end += command.bytes.len();
            self.next = if self.next + 1 == self.script.order.len() { 0 } else { self.next + 1 };
        }
        end
    }
}

/// One unit of the script.
fn rendered(script: &Script) -> Vec<u8> {
    script.order.iter().flat_map(|at| script.commands[usize::from(*at)].bytes.clone()).collect()
}
