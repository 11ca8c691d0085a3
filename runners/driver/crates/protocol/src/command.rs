//! One command: its bytes, how to fill them, and the reply it should get.

use crate::expectation::Expectation;
use crate::framed::Framed;
use crate::literal::Literal;
use crate::template::{Fill, Part, Varying};

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

impl Step {
    /// The slot for which it draws a key number; slot 0 is that of numbers which are not shared, too.
    pub fn drawn_slot(&self) -> Option<u8> {
        match self {
            Step::Number { .. } | Step::DrawVarying(Varying::Key(_) | Varying::ItemKey(_)) => Some(0),
            Step::Draw { slot } => Some(*slot),
            _ => None,
        }
    }
}

/// One command: its bytes, how to fill them, and the reply it should get.
#[derive(Debug, Clone)]
pub struct Command {
    /// The constant bytes, with room for fills of a fixed width.
    pub fixed: Literal,
    pub steps: Vec<Step>,
    pub reply: Expectation,
    /// The most bytes that it may have.
    pub longest: usize,
    /// The form in which it is filled fastest, if only one key number changes its length.
    pub framed: Option<Framed>,
}

impl Command {
    pub fn new(parts: &[Part], reply: Expectation) -> Command {
        let (mut filling, mut longest) = (Filling::default(), 0);
        let mut ahead = 0;
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Literal(bytes) => filling.bytes.extend_from_slice(bytes),
                Part::Filled(Fill::Length { plus, varying }) => {
                    filling.announce(*plus, parts[at..].iter().filter_map(Part::varying).take(*varying));
                    ahead = *varying;
                }
                Part::Filled(Fill::Varying(varying)) => {
                    filling.paste(*varying, ahead == 0);
                    ahead = usize::saturating_sub(ahead, 1);
                }
                Part::Filled(fill) => filling.place(*fill),
            }
            longest += match part {
                Part::Literal(bytes) => bytes.len(),
                Part::Filled(fill) => fill.width() + fill.room(),
            };
        }
        let Filling { bytes, steps } = filling;
        let framed = Framed::of(&bytes, &steps);
        Command { fixed: bytes.into(), steps, reply, longest, framed }
    }

    /// Whether it holds what the reply before it names.
    pub fn takes_reply(&self) -> bool {
        self.steps.contains(&Step::DrawVarying(Varying::Reply))
    }

    /// Whether all of its bytes stay where they are.
    pub fn is_fixed(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step, Step::Paste { .. }))
    }

    /// How many key numbers are drawn for one request.
    pub fn numbers(&self) -> u64 {
        self.steps.iter().filter(|step| step.drawn_slot().is_some()).count() as u64
    }
}

/// The constant bytes of a command and how they are filled, as far as its parts are known.
#[derive(Default)]
struct Filling {
    bytes: Vec<u8>,
    steps: Vec<Step>,
}

impl Filling {
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
        let (draw, step) = match fill {
            Fill::Number => (None, Step::Number { at }),
            Fill::Shared(slot) => (Some(Step::Draw { slot }), Step::Shared { at, slot }),
            Fill::Sequence => (None, Step::Sequence { at }),
            Fill::Tag => (Some(Step::DrawTag), Step::Tag { at }),
            Fill::Value(bytes) => (None, Step::Value { at, bytes }),
            Fill::Varying(_) | Fill::Length { .. } => return,
        };
        let missing = draw.filter(|draw| !self.steps.contains(draw));
        self.steps.extend(missing);
        self.steps.push(step);
        self.bytes.resize(at + fill.width(), b'0');
    }
}
