//! The commands of a workload and the order in which each connection sends them, again and again.

use crate::command::{Command, Step};
use crate::command_order::CommandOrder;
use crate::template::SHARED;
use generator::rng::Rng;

/// A weighted mix repeats a shuffled order of about this many commands: the fastest caches have room for it beside the rest.
const RING: u64 = 1 << 14;
/// A prime, so that connections begin all over the order.
const STAGGER: usize = 7919;

/// Requests with a cursor, at most, before a scan begins again; none: it goes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanLimit(pub Option<u64>);

/// How a reply decides what comes next, so that a connection has one request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialogue {
    /// The second command goes on with the scan that the first one begins.
    Scan(ScanLimit),
    /// Commands in order, some of which hold what the reply before them names.
    Sequence,
}

/// The commands of a workload and the order in which each connection sends them, again and again.
#[derive(Debug, Clone)]
pub struct Script {
    pub commands: Vec<Command>,
    /// Places in `commands`.
    pub order: CommandOrder,
    /// The slots of the numbers that are drawn when the order begins, and which all of its commands share.
    pub opening: Vec<u8>,
    /// Whether the commands are a mix, random or in decks: a batch then begins anywhere in the order.
    pub shuffled: bool,
    /// How far after each other in the order connections begin.
    stagger: usize,
    pub dialogue: Option<Dialogue>,
}

impl Script {
    pub fn of(command: Command) -> Script {
        Script::sequence(vec![(1, command)])
    }

    /// Each command so many times (at least once), one after the other. `__rand_1st__` to `__rand_9th__` are the same in
    /// all of them.
    pub fn sequence(steps: Vec<(usize, Command)>) -> Script {
        let order = CommandOrder::new(&repeated(&steps));
        let mut commands: Vec<Command> = steps.into_iter().map(|(_, command)| command).collect();
        // A command that is alone draws for itself, in its own loop.
        let opening = if order.length() == 1 { Vec::new() } else { take_shared_draws(&mut commands) };
        let dialogue = commands.iter().any(Command::takes_reply).then_some(Dialogue::Sequence);
        Script { commands, order, opening, shuffled: false, stagger: 0, dialogue }
    }

    /// Commands with weights (above 0), in a random order that depends on `seed` alone.
    pub fn mix(weighted: Vec<(u64, Command)>, seed: u64) -> Script {
        let total: u64 = weighted.iter().map(|(weight, _)| weight).sum();
        let rounds = (RING / total).max(1);
        let times = |(weight, command)| ((weight * rounds) as usize, command);
        let steps: Vec<(usize, Command)> = weighted.into_iter().map(times).collect();
        let mut order = repeated(&steps);
        let mut rng = Rng::stream(seed, u64::MAX - 1);
        for last in (1..order.len()).rev() {
            order.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let commands: Vec<Command> = steps.into_iter().map(|(_, command)| command).collect();
        let (shuffled, order) = (commands.len() > 1, CommandOrder::new(&order));
        Script { commands, order, opening: Vec::new(), shuffled, stagger: STAGGER, dialogue: None }
    }

    /// Each command as often as its weight says, one after the other, from the first one on for each connection: what a
    /// connection has sent is never further than one such deck from the weights.
    pub fn decks(weighted: Vec<(u64, Command)>) -> Script {
        let steps: Vec<(usize, Command)> =
            weighted.into_iter().map(|(weight, command)| (weight as usize, command)).collect();
        let order = CommandOrder::new(&repeated(&steps));
        let commands = steps.into_iter().map(|(_, command)| command).collect();
        Script { commands, order, opening: Vec::new(), shuffled: true, stagger: 0, dialogue: None }
    }

    /// The command that begins a scan, and that which goes on with it: the replies decide which is next.
    pub fn scan(commands: Vec<Command>, limit: ScanLimit) -> Script {
        let weighted = commands.into_iter().map(|command| (1, command)).collect();
        Script { dialogue: Some(Dialogue::Scan(limit)), ..Script::decks(weighted) }
    }

    /// The place in the order at which connection `index` begins: in a shuffled one each has its own.
    pub fn entry(&self, index: usize) -> usize {
        index * self.stagger % self.order.length()
    }

    /// Commands of a connection that are sent together: a sequence is sent whole, unless it waits for replies.
    pub fn unit(&self) -> usize {
        if self.dialogue.is_some() { 1 } else { self.related() }
    }

    /// Commands of a connection that belong together.
    fn related(&self) -> usize {
        if self.shuffled { 1 } else { self.order.length() }
    }

    /// Whether a batch begins anywhere in the order.
    pub fn is_cut(&self) -> bool {
        self.shuffled || self.dialogue.is_some()
    }

    /// How many key numbers of `slot` one sequence, or one command of a mix, draws.
    pub fn numbers_per_unit(&self, slot: u8) -> u64 {
        let unit = self.order.commands().into_iter().take(self.related());
        let steps = unit.flat_map(|at| &self.commands[usize::from(at)].steps);
        let drawn = steps.filter_map(Step::drawn_slot).chain(self.opening.iter().copied());
        drawn.filter(|drawn| *drawn == slot).count() as u64
    }

    /// Bytes of one [`Script::unit`] of a sequence.
    pub fn unit_bytes(&self) -> usize {
        self.order.commands().into_iter().map(|at| self.commands[usize::from(at)].fixed.bytes.len()).sum()
    }

    /// Bytes of the longest batch of `units` units.
    pub fn batch_bytes(&self, units: usize) -> usize {
        let longest = self.commands.iter().map(|command| command.longest).max().unwrap_or(0);
        longest.saturating_mul(self.unit()).saturating_mul(units)
    }
}

/// The number of each command, as often as it is repeated.
fn repeated(steps: &[(usize, Command)]) -> Vec<u16> {
    steps.iter().enumerate().flat_map(|(at, (times, _))| vec![at as u16; *times]).collect()
}

/// Take the draws of `__rand_1st__` to `__rand_9th__` out of `commands`; the slots that were drawn.
fn take_shared_draws(commands: &mut [Command]) -> Vec<u8> {
    let draws =
        |slot: &u8| commands.iter().any(|command| command.steps.contains(&Step::Draw { slot: *slot }));
    let slots = (1..SHARED as u8).filter(draws).collect();
    for command in commands {
        command.steps.retain(|step| !matches!(step, Step::Draw { slot: 1.. }));
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Step;
    use crate::expectation::Expectation;
    use crate::template::{Placeholders, Value};

    fn places() -> Placeholders {
        Placeholders { numbers: true, tags: true, value: Value::Drawn(4), ..Placeholders::default() }
    }

    fn command(text: &[u8]) -> Command {
        Command::new(&places().cut(text), Expectation::default())
    }

    #[test]
    fn a_text_is_cut_at_its_placeholders() {
        let command = command(b"SET a{tag}:__rand_int____data__\r\n");
        assert_eq!(command.fixed.bytes, b"SET a00000:0000000000000000\r\n");
        let steps =
            [Step::DrawTag, Step::Tag { at: 5 }, Step::Number { at: 11 }, Step::Value { at: 23, bytes: 4 }];
        assert_eq!(command.steps, steps);
    }

    #[test]
    fn a_shared_number_is_drawn_once_per_command() {
        let command = command(b"__rand_1st__ __rand_1st__ __rand_2nd__ __key__");
        let draws = command.steps.iter().filter(|step| matches!(step, Step::Draw { .. })).count();
        assert_eq!((draws, command.numbers()), (3, 3));
    }

    #[test]
    fn what_is_not_asked_for_stands_for_itself() {
        let plain = Placeholders { value: Value::Same(b"D".to_vec()), ..Placeholders::default() };
        let command =
            Command::new(&plain.cut(b"{tag}__rand_int____data____rand_1st__"), Expectation::default());
        assert_eq!(command.fixed.bytes, b"{tag}__rand_int__D__rand_1st__");
        assert!(command.steps.is_empty());
    }

    #[test]
    fn a_mix_keeps_its_weights_and_its_seed() {
        let mix = |seed| Script::mix(vec![(9, command(b"a")), (1, command(b"b"))], seed).order.commands();
        let order = mix(1);
        let seconds = order.iter().filter(|at| **at == 1).count();
        assert_eq!(seconds * 10, order.len());
        assert_eq!(order, mix(1));
        assert_ne!(order, mix(2));
        // Shuffled: every 1000 successive commands contain the rare one.
        assert!(order.windows(1000).all(|stretch| stretch.contains(&1)));
    }

    #[test]
    fn decks_are_dealt_in_order_from_the_first_card_on() {
        let script = Script::decks(vec![(2, command(b"a")), (3, command(b"b"))]);
        assert_eq!(script.order.commands(), [0, 0, 1, 1, 1]);
        assert_eq!((script.unit(), script.entry(0), script.entry(7)), (1, 0, 0));
    }

    #[test]
    fn a_sequence_repeats_its_steps() {
        let script = Script::sequence(vec![(1, command(b"a")), (3, command(b"bb__rand_int__"))]);
        assert_eq!(script.order.commands(), [0, 1, 1, 1]);
        assert_eq!((script.unit(), script.numbers_per_unit(0)), (4, 3));
        assert_eq!(script.batch_bytes(2), 2 * 4 * 14);
    }
}
