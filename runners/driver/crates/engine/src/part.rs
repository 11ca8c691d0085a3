//! The part of a load that one of several load machines takes.

use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use generator::share::share;

/// Part `number`, from 1, of a load that `of` machines share: some of its connections, which send what they would send if
/// one machine had all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    pub number: usize,
    pub of: usize,
}

impl Part {
    /// The numbers of its connections among `clients`.
    pub fn own(self, clients: usize) -> Range<usize> {
        let share = share(clients as u64, self.number - 1, self.of);
        share.first as usize..(share.first + share.count) as usize
    }
}

impl FromStr for Part {
    type Err = ();

    fn from_str(text: &str) -> Result<Part, ()> {
        let (number, of) = text.split_once('/').ok_or(())?;
        let (number, of) = (number.parse().map_err(drop)?, of.parse().map_err(drop)?);
        if (1..=of).contains(&number) && of > 1 { Ok(Part { number, of }) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_from_1_and_leave_no_connection() {
        let parts: Vec<Part> = ["1/3", "2/3", "3/3"].iter().map(|text| text.parse().unwrap()).collect();
        let own: Vec<Range<usize>> = parts.iter().map(|part| part.own(50)).collect();
        assert_eq!(own, [0..17, 17..34, 34..50]);
        for text in ["", "1", "0/2", "3/2", "1/1", "-1/2", "1/2/3", "a/b"] {
            assert_eq!(text.parse::<Part>(), Err(()), "{text}");
        }
    }
}
