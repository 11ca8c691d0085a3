//! The shapes in which the replies to one command usually come: all others are read byte by byte.

use crate::expectation::{Expectation, ReplyType};
use crate::replies::Tally;
use crate::stride::{self, Stride};

/// The shapes in which the replies to one command usually come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shapes {
    pub usual: Option<Stride>,
    /// Whether a null is an answer.
    null: Option<Stride>,
    /// Whether the answer is an integer.
    integer: bool,
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

    /// Count the replies of these shapes that `bytes` begin with, at most `most`; their length in bytes.
    #[inline(always)]
    pub fn skip(&self, bytes: &[u8], most: u64, tally: &mut Tally) -> usize {
        let (mut at, mut left) = (0, most);
        loop {
            let before = left;
            left -= take_run(self.usual, bytes, &mut at, left);
            let nulls = take_run(self.null, bytes, &mut at, left);
            tally.nulls += nulls;
            left -= nulls;
            while self.integer
                && left > 0
                && let Some(length) = stride::integer(&bytes[at..])
            {
                at += length;
                left -= 1;
            }
            if left == 0 || left == before {
                tally.replies += most - left;
                return at;
            }
        }
    }
}

/// Move `at` over the replies of the shape `stride` that stand there, at most `most`; how many.
#[inline(always)]
fn take_run(stride: Option<Stride>, bytes: &[u8], at: &mut usize, most: u64) -> u64 {
    let Some(stride) = stride else { return 0 };
    let count = stride.run(&bytes[*at..], most);
    *at += count as usize * stride.length;
    count
}
