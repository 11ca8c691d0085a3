//! The requests of one connection, rendered once and filled in place.

use std::sync::Arc;

use crate::dialogue::{Dialogue, Next};
use crate::fill_source::{FillSource, FillState, Tags};
use protocol::command::Command;
use protocol::literal::BLOCK_BYTES;
use protocol::replies::ProtocolError;
use protocol::script::Script;

/// How the commands of a batch are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Each has a fixed place, in which it is filled.
    Fixed,
    /// They are copied before they are filled, because the place may hold another command.
    Copied,
    /// They follow each other, copied and filled; their lengths vary, but only with one key number each.
    Framed,
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
    /// What was sent of each command, when their lengths vary.
    sent: Vec<Sent>,
    dialogue: Option<Dialogue>,
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
        let all = |holds: fn(&Command) -> bool| script.commands.iter().all(holds);
        let layout = match copied {
            true if all(Command::is_fixed) => Layout::Copied,
            false if all(Command::is_fixed) => Layout::Fixed,
            _ if all(|command| command.framed.is_some() || command.is_fixed()) => Layout::Framed,
            _ => Layout::Assembled,
        };
        let bytes = match layout {
            Layout::Fixed => rendered(&script).repeat(units),
            Layout::Copied | Layout::Framed => vec![0; script.batch_bytes(units) + BLOCK_BYTES],
            Layout::Assembled => Vec::new(),
        };
        let next = script.entry(source.sequence as usize);
        let sent = vec![Sent::default(); script.commands.len()];
        let (state, dialogue) = (FillState::default(), script.dialogue.map(Dialogue::new));
        Batch { script, source, state, bytes, layout, whole: !copied, next, sent, dialogue }
    }

    /// For each command of the script some requests with their bytes: all that were sent when their lengths vary.
    pub fn sent(&self) -> Vec<Sent> {
        let one = |command: &Command| Sent { requests: 1, bytes: command.fixed.bytes.len() as u64 };
        match self.layout {
            Layout::Framed | Layout::Assembled => self.sent.clone(),
            Layout::Fixed | Layout::Copied => self.script.commands.iter().map(one).collect(),
        }
    }

    /// Begin with a whole unit, where units are not shuffled; the place in the script's order of the next command.
    pub fn restart(&mut self) -> usize {
        if !self.script.shuffled {
            self.next = 0;
        }
        if let Some(next) = self.dialogue.as_mut().map(Dialogue::restart) {
            self.go_on(next);
        }
        self.begins_at()
    }

    /// Whether the reply to each request decides which command is sent next.
    #[inline]
    pub fn is_dialogue(&self) -> bool {
        self.dialogue.is_some()
    }

    /// Take bytes that answer the last request, up to its end if they are `whole`: in a dialogue they decide what comes next.
    #[inline]
    pub fn take_reply(&mut self, bytes: &[u8], whole: bool) -> Result<(), ProtocolError> {
        let Some(dialogue) = &mut self.dialogue else { return Ok(()) };
        dialogue.take(bytes);
        if whole {
            let takes = self.script.commands[self.script.order.command(self.next)].takes_reply();
            let next = dialogue.end_reply(self.next, takes)?;
            self.go_on(next);
        }
        Ok(())
    }

    fn go_on(&mut self, next: Next) {
        (self.next, self.source.reply) = (next.place, next.named);
    }

    /// Lead the keys from now on to the slots of these `tags`; without tags everything stays.
    pub fn set_tags(&mut self, tags: Tags) {
        if !tags.is_empty() {
            self.source.tags = tags;
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
        self.script.order.count(place, commands, counts)
    }

    /// Fill the next `count` requests (at most what there is room for); their length in bytes.
    #[inline]
    pub fn prepare(&mut self, count: usize) -> usize {
        match (self.layout, self.script.commands.as_slice()) {
            (Layout::Assembled, _) => self.assemble(count),
            (_, [_]) if self.script.opening.is_empty() => self.fill_run(0, 0, count),
            _ => self.prepare_several(count),
        }
    }

    /// Fill `count` requests of command `number` of the script from byte `begin` on; their length in bytes.
    #[inline(always)]
    fn fill_run(&mut self, number: usize, begin: usize, count: usize) -> usize {
        let Batch { script, source, state, bytes, .. } = self;
        let (command, places) = (&script.commands[number], &mut bytes[begin..]);
        let length = match (self.layout, &command.framed) {
            (Layout::Framed, Some(framed)) => source.fill_framed(framed, places, count),
            (Layout::Fixed, _) => source.fill_run::<false>(state, command, places, count),
            _ => source.fill_run::<true>(state, command, places, count),
        };
        if self.layout == Layout::Framed {
            self.sent[number].add(Sent { requests: count as u64, bytes: length as u64 });
        }
        length
    }

    #[inline(never)]
    fn prepare_several(&mut self, count: usize) -> usize {
        let (mut left, mut end) = (count, 0);
        let mut next = if self.whole { 0 } else { self.next };
        while left > 0 {
            self.source.open(&mut self.state, &self.script, next);
            let run = self.script.order.run(next).min(left);
            end += self.fill_run(self.script.order.command(next), end, run);
            left -= run;
            next = self.script.order.after(next, run);
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
            self.source.open(&mut self.state, &self.script, self.next);
            let number = self.script.order.command(self.next);
            let before = self.bytes.len();
            self.source.assemble(&mut self.state, &self.script.commands[number], &mut self.bytes);
            let bytes = (self.bytes.len() - before) as u64;
            self.sent[number].add(Sent { requests: 1, bytes });
            self.next = self.script.order.after(self.next, 1);
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
        let room = script.commands.iter().map(|command| command.fixed.bytes.len()).max().unwrap_or(0);
        let next = script.entry(source.sequence as usize);
        Replay { script, source, state: FillState::default(), request: vec![0; room], next }
    }

    /// The next command, by its place among those of the script, and the key number that it holds last.
    pub fn next_request(&mut self) -> (usize, u64) {
        self.source.open(&mut self.state, &self.script, self.next);
        let command = self.script.order.command(self.next);
        self.source.fill(&mut self.state, &mut self.request, &self.script.commands[command].steps);
        self.next = self.script.order.after(self.next, 1);
        (command, self.state.end_request())
    }

    /// The value that belongs to key `number`, if values are keyed.
    pub fn value_of(&mut self, number: u64) -> &[u8] {
        let cut = self.source.values.cut(&mut self.source.rng, number);
        self.source.values.bytes(cut)
    }
}

/// One unit of the script.
fn rendered(script: &Script) -> Vec<u8> {
    script
        .order
        .commands()
        .into_iter()
        .flat_map(|at| script.commands[usize::from(at)].fixed.bytes.clone())
        .collect()
}
