//! Commands as bytes with places that are filled anew for each request, and the order in which they are sent.

use crate::digits;
use crate::proto::Expectation;
use crate::rng::Rng;
use crate::values::Ttl;

/// Shared numbers of one command: number 0 is `__key__`, 1 to 9 are `__rand_1st__` to `__rand_9th__`.
pub const SHARED: usize = 10;
/// A hash tag with its braces: `{abc}`.
pub const TAG_WIDTH: usize = 5;
/// A weighted mix is dealt out of a shuffled ring of about this many commands.
const RING: u64 = 1 << 16;

/// What fills a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// A key number of its own.
    Number,
    /// A key number that is the same at all places of one command that name it.
    Shared(u8),
    /// The number of the command among those of all connections.
    Sequence,
    /// A hash tag that leads to the node of the connection, the same at all places of one command.
    Tag,
    /// So many bytes out of the value pool.
    Value(usize),
    /// Bytes whose number differs from request to request.
    Varying(Varying),
    /// The sum, as text, of `plus` and the lengths of the next so many varying fills.
    Length { plus: usize, varying: usize },
}

/// A fill without a fixed width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Varying {
    /// A value by the rule of the pool, of at most so many bytes.
    Value(usize),
    /// A number of seconds.
    Ttl(Ttl),
}

impl Fill {
    /// Its bytes, if they are always so many; else 0.
    pub fn width(self) -> usize {
        match self {
            Fill::Number | Fill::Shared(_) | Fill::Sequence => digits::WIDTH,
            Fill::Tag => TAG_WIDTH,
            Fill::Value(bytes) => bytes,
            Fill::Varying(_) | Fill::Length { .. } => 0,
        }
    }

    /// The most bytes that it may add to its width.
    fn room(self) -> usize {
        match self {
            Fill::Varying(Varying::Value(largest)) => largest,
            Fill::Varying(Varying::Ttl(_)) | Fill::Length { .. } => LONGEST_NUMBER,
            _ => 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Literal(Vec<u8>),
    Filled(Fill),
}

impl Part {
    pub fn width(&self) -> usize {
        match self {
            Part::Literal(bytes) => bytes.len(),
            Part::Filled(fill) => fill.width(),
        }
    }

    pub fn varying(&self) -> Option<Varying> {
        match self {
            Part::Filled(Fill::Varying(varying)) => Some(*varying),
            _ => None,
        }
    }
}

/// What `__data__` stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Other bytes in each request, so many.
    Drawn(usize),
    /// Other bytes in each request, at most so many.
    Varying(usize),
    /// These in all requests.
    Same(Vec<u8>),
}

impl Default for Value {
    fn default() -> Value {
        Value::Drawn(0)
    }
}

/// Which placeholders a text may hold; the others stand for themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placeholders {
    /// `__rand_int__`, `__rand_1st__` to `__rand_9th__`.
    pub numbers: bool,
    /// `{tag}`.
    pub tags: bool,
    pub value: Value,
    /// `__ttl__`.
    pub ttl: Option<Ttl>,
}

const NAMED: [(&[u8], Fill); 13] = [
    (b"__rand_int__", Fill::Number),
    (b"__rand_1st__", Fill::Shared(1)),
    (b"__rand_2nd__", Fill::Shared(2)),
    (b"__rand_3rd__", Fill::Shared(3)),
    (b"__rand_4th__", Fill::Shared(4)),
    (b"__rand_5th__", Fill::Shared(5)),
    (b"__rand_6th__", Fill::Shared(6)),
    (b"__rand_7th__", Fill::Shared(7)),
    (b"__rand_8th__", Fill::Shared(8)),
    (b"__rand_9th__", Fill::Shared(9)),
    (b"__key__", Fill::Shared(0)),
    (b"__seq__", Fill::Sequence),
    (b"{tag}", Fill::Tag),
];
const DATA: &[u8] = b"__data__";
pub const TTL: &[u8] = b"__ttl__";
/// Digits of the longest length or number of seconds.
const LONGEST_NUMBER: usize = 20;

impl Value {
    /// Its bytes, or the most that it may have.
    pub fn bytes(&self) -> usize {
        match self {
            Value::Drawn(bytes) | Value::Varying(bytes) => *bytes,
            Value::Same(bytes) => bytes.len(),
        }
    }

    /// Any bytes, as many as it has.
    pub fn any(&self) -> Value {
        match self {
            Value::Varying(largest) => Value::Varying(*largest),
            fixed => Value::Drawn(fixed.bytes()),
        }
    }

    /// What stands for it in a command.
    fn part(&self) -> Part {
        match self {
            Value::Drawn(bytes) => Part::Filled(Fill::Value(*bytes)),
            Value::Varying(largest) => Part::Filled(Fill::Varying(Varying::Value(*largest))),
            Value::Same(bytes) => Part::Literal(bytes.clone()),
        }
    }

    /// Its length as text, before it.
    pub fn length_part(&self) -> Part {
        match self {
            Value::Varying(_) => Part::Filled(Fill::Length { plus: 0, varying: 1 }),
            fixed => Part::Literal(fixed.bytes().to_string().into_bytes()),
        }
    }
}

fn ttl_part(ttl: Ttl) -> Part {
    match ttl.0 == ttl.1 {
        true => Part::Literal(ttl.0.to_string().into_bytes()),
        false => Part::Filled(Fill::Varying(Varying::Ttl(ttl))),
    }
}

impl Placeholders {
    pub fn value_bytes(&self) -> usize {
        self.value.bytes()
    }

    /// Cut one argument into literal parts and places.
    pub fn cut(&self, text: &[u8]) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(&byte) = rest.first() {
            match self.placeholder(rest) {
                Some((width, part)) => {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                    parts.push(part);
                    rest = &rest[width..];
                }
                None => {
                    literal.push(byte);
                    rest = &rest[1..];
                }
            }
        }
        parts.push(Part::Literal(literal));
        parts
    }

    /// The placeholder that `text` begins with, and how long its name is.
    fn placeholder(&self, text: &[u8]) -> Option<(usize, Part)> {
        if text.starts_with(DATA) {
            return Some((DATA.len(), self.value.part()));
        }
        if let (true, Some(ttl)) = (text.starts_with(TTL), self.ttl) {
            return Some((TTL.len(), ttl_part(ttl)));
        }
        let (name, fill) = NAMED.into_iter().find(|(name, _)| text.starts_with(name))?;
        let known = match fill {
            Fill::Tag => self.tags,
            Fill::Number | Fill::Shared(1..) => self.numbers,
            _ => true,
        };
        known.then_some((name.len(), Part::Filled(fill)))
    }
}

/// One step of filling a command; `at` counts from the command's first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Number {
        at: usize,
    },
    Draw {
        slot: u8,
    },
    Shared {
        at: usize,
        slot: u8,
    },
    Sequence {
        at: usize,
    },
    DrawTag,
    Tag {
        at: usize,
    },
    Value {
        at: usize,
        bytes: usize,
    },
    /// Draw what will be pasted.
    DrawVarying(Varying),
    /// Paste, before byte `at`, the length of all that is drawn and not yet pasted, and `plus`.
    PasteLength {
        at: usize,
        plus: usize,
    },
    /// Paste, before byte `at`, what was drawn first.
    Paste {
        at: usize,
    },
}

/// One command: its bytes, how to fill them, and the reply it should get.
#[derive(Debug, Clone)]
pub struct Command {
    /// What always stands there, with room for what has a fixed width.
    pub bytes: Vec<u8>,
    pub steps: Vec<Step>,
    pub reply: Expectation,
    /// The most bytes that it may have.
    pub longest: usize,
}

impl Command {
    pub fn new(parts: &[Part], reply: Expectation) -> Command {
        let mut command = Command { bytes: Vec::new(), steps: Vec::new(), reply, longest: 0 };
        let mut ahead = 0;
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Literal(bytes) => command.bytes.extend_from_slice(bytes),
                Part::Filled(Fill::Length { plus, varying }) => {
                    command.announce(*plus, parts[at..].iter().filter_map(Part::varying).take(*varying));
                    ahead = *varying;
                }
                Part::Filled(Fill::Varying(varying)) => {
                    command.paste(*varying, ahead == 0);
                    ahead = usize::saturating_sub(ahead, 1);
                }
                Part::Filled(fill) => command.place(*fill),
            }
            command.longest += match part {
                Part::Literal(bytes) => bytes.len(),
                Part::Filled(fill) => fill.width() + fill.room(),
            };
        }
        command
    }

    /// Whether all of its bytes stay where they are.
    pub fn is_fixed(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step, Step::Paste { .. }))
    }

    fn announce(&mut self, plus: usize, varying: impl Iterator<Item = Varying>) {
        self.steps.extend(varying.map(Step::DrawVarying));
        self.steps.push(Step::PasteLength { at: self.bytes.len(), plus });
    }

    fn paste(&mut self, varying: Varying, undrawn: bool) {
        self.steps.extend(undrawn.then_some(Step::DrawVarying(varying)));
        self.steps.push(Step::Paste { at: self.bytes.len() });
    }

    fn place(&mut self, fill: Fill) {
        let at = self.bytes.len();
        let (drawn, step) = match fill {
            Fill::Number => (None, Step::Number { at }),
            Fill::Shared(slot) => (Some(Step::Draw { slot }), Step::Shared { at, slot }),
            Fill::Sequence => (None, Step::Sequence { at }),
            Fill::Tag => (Some(Step::DrawTag), Step::Tag { at }),
            Fill::Value(bytes) => (None, Step::Value { at, bytes }),
            Fill::Varying(_) | Fill::Length { .. } => return,
        };
        let missing = drawn.filter(|draw| !self.steps.contains(draw));
        self.steps.extend(missing);
        self.steps.push(step);
        self.bytes.resize(at + fill.width(), b'0');
    }

    /// Key numbers that one filling draws.
    fn numbers(&self) -> u64 {
        self.steps.iter().filter(|step| matches!(step, Step::Number { .. } | Step::Draw { .. })).count()
            as u64
    }
}

/// The commands of a workload and the order in which each connection sends them, again and again.
#[derive(Debug, Clone)]
pub struct Script {
    pub commands: Vec<Command>,
    /// Places in `commands`; not empty.
    pub order: Vec<u16>,
    /// Whether the order is one of chance: a batch then begins anywhere in it.
    pub shuffled: bool,
}

impl Script {
    pub fn of(command: Command) -> Script {
        Script::sequence(vec![(1, command)])
    }

    /// Each command so many times (at least once), one after the other.
    pub fn sequence(steps: Vec<(usize, Command)>) -> Script {
        let order = steps.iter().enumerate().flat_map(|(at, (times, _))| vec![at as u16; *times]).collect();
        let commands = steps.into_iter().map(|(_, command)| command).collect();
        Script { commands, order, shuffled: false }
    }

    /// Commands with weights (above 0), in an order of chance that depends on `seed` alone.
    pub fn mix(weighted: Vec<(u64, Command)>, seed: u64) -> Script {
        let total: u64 = weighted.iter().map(|(weight, _)| weight).sum();
        let rounds = (RING / total).max(1);
        let times = weighted.into_iter().map(|(weight, command)| ((weight * rounds) as usize, command));
        let mut script = Script::sequence(times.collect());
        let mut rng = Rng::stream(seed, u64::MAX - 1);
        for last in (1..script.order.len()).rev() {
            script.order.swap(last, rng.below(last as u64 + 1) as usize);
        }
        script.shuffled = script.commands.len() > 1;
        script
    }

    /// The place in the order at which connection `index` begins: in a shuffled one each has its own.
    pub fn entry(&self, index: usize) -> usize {
        if self.shuffled { index * 7919 % self.order.len() } else { 0 }
    }

    /// Commands of a connection that belong together: a sequence is sent whole.
    pub fn unit(&self) -> usize {
        if self.shuffled { 1 } else { self.order.len() }
    }

    /// Key numbers that one [`Script::unit`] draws.
    pub fn numbers_per_unit(&self) -> u64 {
        let unit = self.order.iter().take(self.unit());
        unit.map(|at| self.commands[usize::from(*at)].numbers()).sum()
    }

    /// Bytes of one [`Script::unit`] of a sequence.
    pub fn unit_bytes(&self) -> usize {
        self.order.iter().map(|at| self.commands[usize::from(*at)].bytes.len()).sum()
    }

    /// Bytes of the longest batch of `units` units.
    pub fn batch_bytes(&self, units: usize) -> usize {
        let longest = self.commands.iter().map(|command| command.longest).max().unwrap_or(0);
        longest.saturating_mul(self.unit()).saturating_mul(units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Placeholders {
        Placeholders { numbers: true, tags: true, value: Value::Drawn(4), ttl: None }
    }

    fn command(text: &[u8]) -> Command {
        Command::new(&places().cut(text), Expectation::default())
    }

    #[test]
    fn a_text_is_cut_at_its_placeholders() {
        let command = command(b"SET a{tag}:__rand_int____data__\r\n");
        assert_eq!(command.bytes, b"SET a00000:0000000000000000\r\n");
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
        let plain =
            Placeholders { numbers: false, tags: false, value: Value::Same(b"D".to_vec()), ttl: None };
        let command =
            Command::new(&plain.cut(b"{tag}__rand_int____data____rand_1st__"), Expectation::default());
        assert_eq!(command.bytes, b"{tag}__rand_int__D__rand_1st__");
        assert!(command.steps.is_empty());
    }

    #[test]
    fn a_mix_keeps_its_weights_and_its_seed() {
        let mix = |seed| Script::mix(vec![(9, command(b"a")), (1, command(b"b"))], seed).order;
        let order = mix(1);
        let seconds = order.iter().filter(|at| **at == 1).count();
        assert_eq!(seconds * 10, order.len());
        assert_eq!(order, mix(1));
        assert_ne!(order, mix(2));
        // Shuffled: no stretch of 1000 is without the rare one.
        assert!(order.windows(1000).all(|stretch| stretch.contains(&1)));
    }

    #[test]
    fn a_sequence_repeats_its_steps() {
        let script = Script::sequence(vec![(1, command(b"a")), (3, command(b"bb__rand_int__"))]);
        assert_eq!(script.order, [0, 1, 1, 1]);
        assert_eq!((script.unit(), script.numbers_per_unit()), (4, 3));
        assert_eq!(script.batch_bytes(2), 2 * 4 * 14);
    }
}
