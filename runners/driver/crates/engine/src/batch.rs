//! The requests of one connection, rendered once and filled in place.

use std::collections::VecDeque;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use generator::digits;
use generator::keys::Keys;
use generator::rng::Rng;
use generator::values::{ValuePool, ValueRange};
use protocol::command::{Command, Step};
use protocol::script::Script;
use protocol::template::{PlainKeys, SHARED, TAG_WIDTH, Varying};

/// The hash tags that lead to one node of a cluster; empty without a cluster.
pub type Tags = Arc<[[u8; TAG_WIDTH]]>;

/// What the places of a connection's commands are filled with.
pub struct FillSource {
    pub keys: Keys,
    /// Of each command, when key numbers have no leading zeros.
    pub command_keys: Vec<Keys>,
    pub values: ValuePool,
    /// The stream of the connection.
    pub rng: Rng,
    pub tags: Tags,
    /// The number of the connection's next command among those of all, and how many connections there are.
    pub sequence: u64,
    pub clients: u64,
}

impl FillSource {
    /// The usual command holds one number and nothing else. Its own loop, with the stream in registers, saves 7%
    /// of the CPU time at -P 100.
    #[inline(always)]
    fn fill_number<'a>(&mut self, requests: impl Iterator<Item = &'a mut [u8]>, at: usize) {
        let mut rng = self.rng.clone();
        match self.keys {
            Keys::Uniform { keyspace } => {
                for request in requests {
                    number(request, at, rng.below(keyspace));
                    self.sequence += self.clients;
                }
            }
            _ => {
                for request in requests {
                    number(request, at, self.keys.next(&mut rng));
                    self.sequence += self.clients;
                }
            }
        }
        self.rng = rng;
    }

    /// The same for a command that holds a number and, from the start of `value` to its end, a value.
    #[inline(always)]
    fn fill_value<'a>(
        &mut self,
        requests: impl Iterator<Item = &'a mut [u8]>,
        at: usize,
        value: Range<usize>,
    ) {
        let mut rng = self.rng.clone();
        for request in requests {
            let key = self.keys.next(&mut rng);
            number(request, at, key);
            let from = self.values.place(&mut rng, key);
            let bytes = self.values.bytes(ValueRange { from, bytes: value.len() });
            request[value.clone()].copy_from_slice(bytes);
            self.sequence += self.clients;
        }
        self.rng = rng;
    }

    #[inline(always)]
    fn fill(&mut self, state: &mut FillState, request: &mut [u8], steps: &[Step]) {
        for step in steps {
            self.take(state, request, *step);
        }
        self.sequence += self.clients;
    }

    #[inline(always)]
    fn take(&mut self, state: &mut FillState, request: &mut [u8], step: Step) {
        match step {
            Step::Number { at } => {
                state.last = self.keys.next(&mut self.rng);
                number(request, at, state.last);
            }
            Step::Value { at, bytes } => {
                let from = self.values.place(&mut self.rng, state.last);
                request[at..at + bytes].copy_from_slice(self.values.bytes(ValueRange { from, bytes }));
            }
            Step::Draw { slot } => {
                state.last = self.keys.next(&mut self.rng);
                state.numbers[usize::from(slot)] = state.last;
            }
            Step::Shared { at, slot } => number(request, at, state.numbers[usize::from(slot)]),
            Step::Sequence { at } => number(request, at, self.sequence % digits::LIMIT),
            Step::DrawTag => state.tag = self.rng.below(self.tags.len() as u64) as usize,
            Step::Tag { at } => request[at..at + TAG_WIDTH].copy_from_slice(&self.tags[state.tag]),
            Step::DrawVarying(varying) => {
                let piece = self.draw(varying, &mut state.last);
                state.pieces.push_back(piece);
            }
            // `assemble` does these.
            Step::PasteLength { .. } | Step::Paste { .. } => {}
        }
    }

    #[inline(never)]
    fn draw(&mut self, varying: Varying, last: &mut u64) -> Piece {
        match varying {
            Varying::Value(_) => Piece::Value(self.values.cut(&mut self.rng, *last)),
            Varying::Key(PlainKeys { first, command }) => {
                *last = self.command_keys[command].next(&mut self.rng);
                Piece::Number(first + *last)
            }
            Varying::Ttl(ttl) => Piece::Number(ttl.draw(&mut self.rng)),
        }
    }

    /// Append `command`, filled and with its varying pieces, to `bytes`.
    fn assemble(&mut self, state: &mut FillState, command: &Command, bytes: &mut Vec<u8>) {
        let mut fixed = std::mem::take(&mut state.fixed);
        fixed.clone_from(&command.bytes);
        let mut taken = 0;
        for step in &command.steps {
            let (Step::PasteLength { at, .. } | Step::Paste { at }) = *step else {
                self.take(state, &mut fixed, *step);
                continue;
            };
            bytes.extend_from_slice(&fixed[taken..at]);
            taken = at;
            match *step {
                Step::PasteLength { plus, .. } => {
                    let length = plus + state.pieces.iter().map(Piece::length).sum::<usize>();
                    text(bytes, length as u64);
                }
                _ => match state.pieces.pop_front() {
                    Some(Piece::Value(cut)) => bytes.extend_from_slice(self.values.bytes(cut)),
                    Some(Piece::Number(number)) => text(bytes, number),
                    None => {}
                },
            }
        }
        bytes.extend_from_slice(&fixed[taken..]);
        state.fixed = fixed;
        self.sequence += self.clients;
    }
}

/// What is pasted into a command.
enum Piece {
    Value(ValueRange),
    Number(u64),
}

impl Piece {
    fn length(&self) -> usize {
        match self {
            Piece::Value(cut) => cut.bytes,
            Piece::Number(number) => number.checked_ilog10().unwrap_or(0) as usize + 1,
        }
    }
}

#[inline]
fn number(request: &mut [u8], at: usize, number: u64) {
    let place = request[at..].first_chunk_mut().expect("the template holds the digits");
    digits::write(place, number);
}

/// Append `number` without leading zeros.
fn text(bytes: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return bytes.extend_from_slice(&digits[at..]);
        }
    }
}

/// What the places of one command share.
#[derive(Default)]
struct FillState {
    numbers: [u64; SHARED],
    tag: usize,
    /// The key number that was drawn last: a value belongs to it.
    last: u64,
    /// What is not yet pasted.
    pieces: VecDeque<Piece>,
    /// Room for the bytes of a command between which pieces are pasted.
    fixed: Vec<u8>,
}

/// How the commands of a batch are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Each has a fixed place, in which it is filled.
    Fixed,
    /// They are copied before they are filled, because the place may hold another command.
    Copied,
    /// They are assembled from pieces, because their lengths vary.
    Assembled,
}

pub struct Batch {
    script: Arc<Script>,
    source: FillSource,
    state: FillState,
    bytes: Vec<u8>,
    layout: Layout,
    /// Whether each batch begins with a unit.
    whole: bool,
    /// Place in the script's order of the next command.
    next: usize,
    /// What was assembled of each command.
    assembled: Vec<Sent>,
}

/// Requests with their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    pub requests: u64,
    pub bytes: u64,
}

impl Sent {
    pub fn add(&mut self, other: Sent) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}

impl Batch {
    /// Room for `units` units of the script. Batches that do not begin with a unit must be `copied`.
    pub fn new(script: Arc<Script>, units: usize, copied: bool, source: FillSource) -> Batch {
        let layout = match copied {
            _ if !script.commands.iter().all(Command::is_fixed) => Layout::Assembled,
            true => Layout::Copied,
            false => Layout::Fixed,
        };
        let bytes = match layout {
            Layout::Fixed => rendered(&script).repeat(units),
            Layout::Copied => vec![0; script.batch_bytes(units)],
            Layout::Assembled => Vec::new(),
        };
        let next = script.entry(source.sequence as usize);
        let assembled = vec![Sent::default(); script.commands.len()];
        Batch { script, source, state: FillState::default(), bytes, layout, whole: !copied, next, assembled }
    }

    /// For each command of the script some requests with their bytes: all that were sent when their lengths vary.
    pub fn sent(&self) -> Vec<Sent> {
        let one = |command: &Command| Sent { requests: 1, bytes: command.bytes.len() as u64 };
        match self.layout {
            Layout::Assembled => self.assembled.clone(),
            Layout::Fixed | Layout::Copied => self.script.commands.iter().map(one).collect(),
        }
    }

    /// The bytes of the last prepared requests.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The place in the script's order of the first command that [`Batch::prepare`] will fill.
    pub fn begins_at(&self) -> usize {
        if self.whole { 0 } else { self.next }
    }

    /// Add the `commands` at `place` of the script's order and after it to `counts`, which has a number for each command
    /// of the script; the place after them.
    pub fn count_commands(&self, place: usize, commands: u64, counts: &mut [u64]) -> usize {
        let order = &self.script.order;
        let (mut at, mut left) = (place, commands as usize);
        while left > 0 {
            let part = &order[at..order.len().min(at + left)];
            part.iter().for_each(|command| counts[usize::from(*command)] += 1);
            left -= part.len();
            at = if at + part.len() == order.len() { 0 } else { at + part.len() };
        }
        at
    }

    /// Fill the next `count` requests (at most what there is room for); their length in bytes.
    #[inline]
    pub fn prepare(&mut self, count: usize) -> usize {
        match (self.layout, self.script.commands.as_slice()) {
            (Layout::Assembled, _) => self.assemble(count),
            (_, [command]) => {
                let length = command.bytes.len();
                let requests = self.bytes.chunks_exact_mut(length).take(count);
                match command.steps[..] {
                    [Step::Number { at }] => self.source.fill_number(requests, at),
                    [Step::Number { at }, Step::Value { at: from, bytes }] => {
                        self.source.fill_value(requests, at, from..from + bytes);
                    }
                    _ => requests
                        .for_each(|request| self.source.fill(&mut self.state, request, &command.steps)),
                }
                count * length
            }
            _ => self.prepare_several(count),
        }
    }

    #[inline(never)]
    fn prepare_several(&mut self, count: usize) -> usize {
        let mut end = 0;
        let mut next = if self.whole { 0 } else { self.next };
        for _ in 0..count {
            let command = &self.script.commands[usize::from(self.script.order[next])];
            let request = &mut self.bytes[end..end + command.bytes.len()];
            if self.layout == Layout::Copied {
                request.copy_from_slice(&command.bytes);
            }
            match command.steps[..] {
                [Step::Number { at }] => self.source.fill_number(iter::once(request), at),
                [Step::Number { at }, Step::Value { at: from, bytes }] => {
                    self.source.fill_value(iter::once(request), at, from..from + bytes);
                }
                _ => self.source.fill(&mut self.state, request, &command.steps),
            }
            end += command.bytes.len();
            next = following(&self.script, next);
        }
        self.next = next;
        end
    }

    #[inline(never)]
    fn assemble(&mut self, count: usize) -> usize {
        self.bytes.clear();
        if self.whole {
            self.next = 0;
        }
        for _ in 0..count {
            let number = usize::from(self.script.order[self.next]);
            let before = self.bytes.len();
            self.source.assemble(&mut self.state, &self.script.commands[number], &mut self.bytes);
            let bytes = (self.bytes.len() - before) as u64;
            self.assembled[number].add(Sent { requests: 1, bytes });
            self.next = following(&self.script, self.next);
        }
        self.bytes.len()
    }
}

/// Generates the requests of a connection again, without their bytes.
pub struct Replay {
    script: Arc<Script>,
    source: FillSource,
    state: FillState,
    /// Room for any command of the script.
    request: Vec<u8>,
    next: usize,
}

impl Replay {
    pub fn new(script: Arc<Script>, source: FillSource) -> Replay {
        let room = script.commands.iter().map(|command| command.bytes.len()).max().unwrap_or(0);
        let next = script.entry(source.sequence as usize);
        Replay { script, source, state: FillState::default(), request: vec![0; room], next }
    }

    /// The next command, by its place among those of the script, and the key number that it drew last.
    pub fn next_request(&mut self) -> (usize, u64) {
        let command = usize::from(self.script.order[self.next]);
        self.source.fill(&mut self.state, &mut self.request, &self.script.commands[command].steps);
        self.state.pieces.clear();
        self.next = following(&self.script, self.next);
        (command, self.state.last)
    }

    /// The value that belongs to key `number`, if values are keyed.
    pub fn value_of(&mut self, number: u64) -> &[u8] {
        let cut = self.source.values.cut(&mut self.source.rng, number);
        self.source.values.bytes(cut)
    }
}

/// The place in the order behind `place`.
#[inline]
fn following(script: &Script, place: usize) -> usize {
    if place + 1 == script.order.len() { 0 } else { place + 1 }
}

/// One unit of the script.
fn rendered(script: &Script) -> Vec<u8> {
    script.order.iter().flat_map(|at| script.commands[usize::from(*at)].bytes.clone()).collect()
}
