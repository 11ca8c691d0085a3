//! What the places of a connection's commands are filled with.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::copy::copy;
use crate::table::Table;
use generator::digits;
use generator::items::ItemSource;
use generator::keys::Keys;
use generator::rng::Rng;
use generator::values::{ValuePool, ValueRange};
use protocol::command::{Command, Step};
use protocol::framed::Framed;
use protocol::script::Script;
use protocol::template::{ItemPlaces, PlainKeys, SHARED, TAG_WIDTH, Varying};

/// The hash tags that lead to one node of a cluster; empty without a cluster.
pub type Tags = Arc<[[u8; TAG_WIDTH]]>;

/// The keys and values that are written into the commands of a connection.
pub struct FillSource {
    pub keys: Keys,
    /// The keys of `__rand_1st__` to `__rand_9th__`, when each of them counts for itself; else empty.
    pub shared_keys: Vec<Keys>,
    /// The keys of each command, when key numbers have no leading zeros; else empty.
    pub command_keys: Vec<Keys>,
    pub values: ValuePool,
    /// The stream of the connection.
    pub rng: Rng,
    pub tags: Tags,
    /// The number of the connection's next command among those of all, and how many connections there are.
    pub sequence: u64,
    pub clients: u64,
    /// What the last reply has named, in a dialogue.
    pub reply: Vec<u8>,
    /// Of a dump.
    pub items: Option<Box<ItemSource>>,
    /// Whose rows commands hold, each the next one.
    pub table: Option<Arc<Table>>,
}

impl FillSource {
    /// Fill the `count` requests of `command` that begin `bytes`; if `COPIED`, each is copied before, and behind the last
    /// there is room for a block. Their length.
    #[inline(always)]
    pub fn fill_run<const COPIED: bool>(
        &mut self,
        state: &mut FillState,
        command: &Command,
        bytes: &mut [u8],
        count: usize,
    ) -> usize {
        match command.steps[..] {
            [Step::Number { at }] => self.fill_numbers::<COPIED>(command, bytes, count, at),
            [Step::Number { at }, Step::Value { at: from, bytes: length }] => {
                self.fill_values::<COPIED>(command, bytes, count, (at, from..from + length));
            }
            _ => self.fill_steps::<COPIED>(state, command, bytes, count),
        }
        count * command.fixed.bytes.len()
    }

    /// The usual command holds one number and nothing else. Its own loop, with the stream in registers, saves 7%
    /// of the CPU time at -P 100.
    #[inline(always)]
    fn fill_numbers<const COPIED: bool>(
        &mut self,
        command: &Command,
        bytes: &mut [u8],
        count: usize,
        at: usize,
    ) {
        let mut rng = self.rng.clone();
        match self.keys {
            Keys::Uniform { keyspace } => each::<COPIED>(command, bytes, count, |request| {
                number(request, at, rng.below(keyspace));
            }),
            _ => {
                each::<COPIED>(command, bytes, count, |request| number(request, at, self.keys.next(&mut rng)))
            }
        }
        self.rng = rng;
        self.sequence += self.clients * count as u64;
    }

    /// The same for a command that holds a number and a value at these places.
    #[inline(always)]
    fn fill_values<const COPIED: bool>(
        &mut self,
        command: &Command,
        bytes: &mut [u8],
        count: usize,
        (at, value): (usize, Range<usize>),
    ) {
        let mut rng = self.rng.clone();
        each::<COPIED>(command, bytes, count, |request| {
            let key = self.keys.next(&mut rng);
            number(request, at, key);
            let from = self.values.place(&mut rng, key);
            copy(self.values.bytes(ValueRange { from, bytes: value.len() }), &mut request[value.clone()]);
        });
        self.rng = rng;
        self.sequence += self.clients * count as u64;
    }

    #[inline(never)]
    fn fill_steps<const COPIED: bool>(
        &mut self,
        state: &mut FillState,
        command: &Command,
        bytes: &mut [u8],
        count: usize,
    ) {
        each::<COPIED>(command, bytes, count, |request| self.fill(state, request, &command.steps));
    }

    /// Fill one request by the steps of its command.
    #[inline(always)]
    pub fn fill(&mut self, state: &mut FillState, request: &mut [u8], steps: &[Step]) {
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
                copy(self.values.bytes(ValueRange { from, bytes }), &mut request[at..at + bytes]);
            }
            Step::Draw { slot } => self.draw_shared(state, slot),
            Step::Shared { at, slot } => {
                state.last = state.numbers[usize::from(slot)];
                number(request, at, state.last);
            }
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

    /// Draw what all commands of `script` share if its order begins at `place`.
    #[inline(always)]
    pub fn open(&mut self, state: &mut FillState, script: &Script, place: usize) {
        if place == 0 {
            script.opening.iter().for_each(|slot| self.draw_shared(state, *slot));
        }
    }

    /// Draw the number of `slot`, which is the same wherever it is written until it is drawn again.
    #[inline(always)]
    fn draw_shared(&mut self, state: &mut FillState, slot: u8) {
        let slot = usize::from(slot);
        // Slot 0 is `__key__`, which counts on with all other numbers.
        let keys = self.shared_keys.get_mut(slot.wrapping_sub(1)).unwrap_or(&mut self.keys);
        state.numbers[slot] = keys.next(&mut self.rng);
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
            Varying::Reply => Piece::Reply(self.reply.len()),
            Varying::Item(places) => self.next_item(places),
            Varying::ItemKey(places) => self.item_key(places),
            Varying::Field { column, .. } => {
                let row = self.sequence;
                let bytes = self.table.as_ref().map_or(0, |table| table.cell(row, column).len());
                Piece::Cell { row, column, bytes }
            }
        }
    }

    fn next_item(&mut self, places: ItemPlaces) -> Piece {
        let number = places.first.map(|first| first + self.command_keys[places.command].next(&mut self.rng));
        let Some(items) = &mut self.items else { return Piece::Request(0) };
        items.advance(&mut self.rng, number);
        Piece::Request(items.request().len())
    }

    fn item_key(&mut self, places: ItemPlaces) -> Piece {
        let number = self.command_keys[places.command].next(&mut self.rng);
        let bytes = self.items.as_ref().map_or(0, |items| items.key(number).len());
        Piece::Key { number, bytes }
    }

    fn paste(&self, piece: &Piece, bytes: &mut Vec<u8>) {
        let (items, table) = (&self.items, &self.table);
        let pasted = match piece {
            Piece::Value(cut) => Some(self.values.bytes(*cut)),
            Piece::Number(number) => return text(bytes, *number),
            Piece::Reply(_) => Some(self.reply.as_slice()),
            Piece::Request(_) => items.as_ref().map(|items| items.request()),
            Piece::Key { number, .. } => items.as_ref().map(|items| items.key(*number)),
            Piece::Cell { row, column, .. } => table.as_ref().map(|table| table.cell(*row, *column)),
        };
        bytes.extend_from_slice(pasted.unwrap_or_default());
    }

    /// Write `count` requests of `framed` to `bytes`, which must be a block longer than they are; returns their length.
    #[inline(always)]
    pub fn fill_framed(&mut self, framed: &Framed, bytes: &mut [u8], count: usize) -> usize {
        let PlainKeys { first, command } = framed.keys;
        let keys = &mut self.command_keys[command];
        let (mut rng, mut end) = (self.rng.clone(), 0);
        for _ in 0..count {
            let key = keys.next(&mut rng);
            let request = &mut bytes[end..];
            let at = write_head(framed, request, first + key);
            let tail = &mut request[at..];
            framed.tail.render(tail);
            if !framed.value.is_empty() {
                let from = self.values.place(&mut rng, key);
                let value = ValueRange { from, bytes: framed.value.len() };
                copy(self.values.bytes(value), &mut tail[framed.value.clone()]);
            }
            end += at + framed.tail.bytes.len();
        }
        self.rng = rng;
        self.sequence += self.clients * count as u64;
        end
    }

    /// Append `command`, filled and with its varying pieces, to `bytes`.
    pub fn assemble(&mut self, state: &mut FillState, command: &Command, bytes: &mut Vec<u8>) {
        let mut fixed = std::mem::take(&mut state.fixed);
        fixed.clone_from(&command.fixed.bytes);
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
                _ => state.pieces.pop_front().iter().for_each(|piece| self.paste(piece, bytes)),
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
    /// What the last reply has named.
    Reply(usize),
    /// The request of the item that was read last.
    Request(usize),
    /// The key of an item.
    Key {
        number: u64,
        bytes: usize,
    },
    /// Of a table.
    Cell {
        row: u64,
        column: usize,
        bytes: usize,
    },
}

impl Piece {
    fn length(&self) -> usize {
        match self {
            Piece::Value(cut) => cut.bytes,
            Piece::Reply(bytes)
            | Piece::Request(bytes)
            | Piece::Key { bytes, .. }
            | Piece::Cell { bytes, .. } => *bytes,
            Piece::Number(number) => number.checked_ilog10().unwrap_or(0) as usize + 1,
        }
    }
}

/// Let `fill` have each of the `count` requests of `command` that begin `bytes`, copied before if `COPIED`.
#[inline(always)]
fn each<const COPIED: bool>(
    command: &Command,
    bytes: &mut [u8],
    count: usize,
    mut fill: impl FnMut(&mut [u8]),
) {
    let (length, mut rest) = (command.fixed.bytes.len(), bytes);
    for _ in 0..count {
        if COPIED {
            command.fixed.render(rest);
        }
        let (request, behind) = rest.split_at_mut(length);
        fill(request);
        rest = behind;
    }
}

#[inline(always)]
fn number(request: &mut [u8], at: usize, number: u64) {
    let place = request[at..].first_chunk_mut().expect("the template holds the digits");
    digits::write(place, number);
}

/// Append `number` without leading zeros.
fn text(bytes: &mut Vec<u8>, number: u64) {
    match digits::few(number) {
        Some((digits, count)) => bytes.extend_from_slice(&digits[..count]),
        None => bytes.extend_from_slice(number.to_string().as_bytes()),
    }
}

/// Write the head of `framed` and `number` to the begin of `request`; where they end.
#[inline(always)]
fn write_head(framed: &Framed, request: &mut [u8], number: u64) -> usize {
    let Some((digits, count)) = digits::few(number) else { return write_long_head(framed, request, number) };
    let head = &framed.heads[count - 1];
    head.render(request);
    let at = head.bytes.len();
    request[at..at + digits.len()].copy_from_slice(&digits);
    at + count
}

#[cold]
fn write_long_head(framed: &Framed, request: &mut [u8], number: u64) -> usize {
    let digits = number.to_string();
    let head = &framed.heads[digits.len() - 1];
    head.render(request);
    let (at, end) = (head.bytes.len(), head.bytes.len() + digits.len());
    request[at..end].copy_from_slice(digits.as_bytes());
    end
}

/// What the places of one command share, and the commands of a sequence.
#[derive(Default)]
pub struct FillState {
    numbers: [u64; SHARED],
    tag: usize,
    /// The key number that was written last: a value belongs to it.
    last: u64,
    /// What is not yet pasted.
    pieces: VecDeque<Piece>,
    /// Room for the bytes of a command between which pieces are pasted.
    fixed: Vec<u8>,
}

impl FillState {
    /// Drop what is not pasted; the key number that was written last.
    pub fn end_request(&mut self) -> u64 {
        self.pieces.clear();
        self.last
    }
}
