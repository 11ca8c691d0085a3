//! The shapes in which the replies to one command usually come: all others are read byte by byte.

use crate::expectation::{Expectation, ReplyType};
use crate::replies::Tally;
use crate::stride::{self, Stride};

/// The shapes in which the replies to one command usually come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shapes {
    usual: Option<Stride>,
    /// Whether a null is an answer.
    null: Option<Stride>,
    /// Whether the answer is an integer.
    integer: bool,
}

/// A reply of a usual shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub length: usize,
    /// Whether it says that the key is not there.
    pub null: bool,
}

impl Shapes {
    pub fn of(expected: &Expectation) -> Shapes {
        let may_be_null = expected.nullable && expected.reply == ReplyType::Byte(b'$');
        Shapes {
            usual: expected.usual,
            null: may_be_null.then(Stride::null),
            integer: expected.reply == ReplyType::Byte(b':'),
        }
    }

    /// The whole reply that `bytes` begin with, if it is of one of these shapes.
    #[inline(always)]
    pub fn fit(&self, bytes: &[u8]) -> Option<Reply> {
        match (self.usual, self.null) {
            (Some(usual), _) if usual.fits(bytes) => Some(Reply { length: usual.length, null: false }),
            (_, Some(null)) if null.fits(bytes) => Some(Reply { length: null.length, null: true }),
            _ if self.integer => stride::integer(bytes).map(|length| Reply { length, null: false }),
            _ => None,
        }
    }

    /// Count the replies of these shapes that `bytes` begin with; their length in bytes.
    #[inline(always)]
    pub fn skip(&self, bytes: &[u8], tally: &mut Tally) -> usize {
        let mut at = self.skip_run(self.usual, bytes, &mut tally.replies);
        loop {
            let before = at;
            let nulls = self.null.map_or(0, |null| null.run(&bytes[at..]));
            if nulls > 0 {
                at += nulls * Stride::null().length;
                (tally.replies, tally.nulls) = (tally.replies + nulls as u64, tally.nulls + nulls as u64);
                at += self.skip_run(self.usual, &bytes[at..], &mut tally.replies);
            }
            while self.integer
                && let Some(length) = stride::integer(&bytes[at..])
            {
                at += length;
                tally.replies += 1;
            }
            if at == before {
                return at;
            }
        }
    }

    #[inline(always)]
    fn skip_run(&self, stride: Option<Stride>, bytes: &[u8], replies: &mut u64) -> usize {
        let Some(stride) = stride else { return 0 };
        let count = stride.run(bytes);
        *replies += count as u64;
        count * stride.length
    }
}
