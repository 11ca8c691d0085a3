//! Which recorded commands are not sent again.

use crate::omission::Reason;

/// Longer than the name of any command that is left out.
const LONGEST: usize = 24;

/// What a command means to a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Sent,
    LeftOut(Reason),
    /// Left out if its words say that it blocks.
    Stream,
    /// Sent with the first request after it.
    Begin,
}

/// What the command called `name` means, in whatever case.
pub fn meaning(name: &[u8]) -> Meaning {
    let mut capitals = [0; LONGEST];
    let Some(capitals) = capitals.get_mut(..name.len()) else { return Meaning::Sent };
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    match &*capitals {
        b"MULTI" => Meaning::Begin,
        b"SELECT" => Meaning::LeftOut(Reason::Select),
        b"XREAD" | b"XREADGROUP" => Meaning::Stream,
        b"AUTH" | b"HELLO" | b"CLIENT" | b"RESET" | b"QUIT" | b"READONLY" | b"READWRITE" | b"ASKING"
        | b"WATCH" | b"UNWATCH" | b"MONITOR" => Meaning::LeftOut(Reason::Connection),
        b"SUBSCRIBE" | b"PSUBSCRIBE" | b"SSUBSCRIBE" | b"UNSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SUNSUBSCRIBE" => {
            Meaning::LeftOut(Reason::Subscription)
        }
        b"BLPOP" | b"BRPOP" | b"BRPOPLPUSH" | b"BLMOVE" | b"BLMPOP" | b"BZPOPMIN" | b"BZPOPMAX"
        | b"BZMPOP" | b"WAIT" | b"WAITAOF" => Meaning::LeftOut(Reason::Blocking),
        b"SHUTDOWN" | b"DEBUG" | b"REPLICAOF" | b"SLAVEOF" | b"CONFIG" | b"ACL" | b"MODULE" | b"FAILOVER"
        | b"CLUSTER" | b"SAVE" | b"BGSAVE" | b"BGREWRITEAOF" | b"MIGRATE" | b"RESTORE-ASKING" | b"SYNC"
        | b"PSYNC" | b"REPLCONF" | b"SENTINEL" | b"PFDEBUG" | b"PFSELFTEST" => {
            Meaning::LeftOut(Reason::Administration)
        }
        _ => Meaning::Sent,
    }
}

/// Whether the request in `bytes`, an XREAD or XREADGROUP, waits for elements.
pub fn blocks(bytes: &[u8]) -> bool {
    let word = |text: &'static [u8]| {
        bytes.windows(text.len()).position(|window| window.eq_ignore_ascii_case(text)).unwrap_or(usize::MAX)
    };
    word(b"\r\n$5\r\nBLOCK\r\n") < word(b"\r\n$7\r\nSTREAMS\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_any_case() {
        assert_eq!(meaning(b"BlPop"), Meaning::LeftOut(Reason::Blocking));
        assert_eq!(meaning(b"get"), Meaning::Sent);
        assert_eq!(meaning(&[b'x'; 100]), Meaning::Sent);
    }

    #[test]
    fn a_stream_blocks_by_its_option_and_not_by_its_name() {
        assert!(blocks(
            b"*6\r\n$5\r\nXREAD\r\n$5\r\nblock\r\n$1\r\n0\r\n$7\r\nstreams\r\n$1\r\ns\r\n$1\r\n$\r\n"
        ));
        assert!(!blocks(b"*4\r\n$5\r\nXREAD\r\n$7\r\nSTREAMS\r\n$5\r\nblock\r\n$1\r\n0\r\n"));
    }
}
