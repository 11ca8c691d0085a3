//! The seam between the engine and a protocol: commands to render, replies to skip.

pub mod resp;
pub mod skipper;

use std::ops::Range;

/// What one request of a workload does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    Ping,
    Set,
    Get,
    Incr,
}

impl Test {
    pub const ALL: [Test; 4] = [Test::Ping, Test::Set, Test::Get, Test::Incr];

    pub fn name(self) -> &'static str {
        match self {
            Test::Ping => "ping",
            Test::Set => "set",
            Test::Get => "get",
            Test::Incr => "incr",
        }
    }

    pub fn named(name: &str) -> Option<Test> {
        Test::ALL.into_iter().find(|test| test.name() == name)
    }

    /// Whether an empty reply means that the key was not there.
    pub fn reads(self) -> bool {
        self == Test::Get
    }
}

/// One command as bytes, with the places that differ from request to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub bytes: Vec<u8>,
    /// Where the twelve digits of the key number stand.
    pub key_at: Option<usize>,
    pub value: Option<Range<usize>>,
}

/// What a run of received bytes completed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Complete replies, errors and nulls included.
    pub replies: u64,
    /// Replies that say "no such key".
    pub nulls: u64,
    /// Replies that are or contain an error.
    pub errors: u64,
    pub first_error: Option<String>,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.replies += other.replies;
        self.nulls += other.nulls;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

/// The bytes are not of the protocol, or answer something that was not asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbage(pub String);

pub trait Proto: Sync {
    type Replies: Replies;

    fn template(&self, test: Test, value_bytes: usize) -> Template;

    /// The skipper of the replies to [`Proto::template`] of the same arguments.
    fn replies(&self, test: Test, value_bytes: usize) -> Self::Replies;
}

pub trait Replies {
    /// Take the next bytes of a connection, cut anywhere; count the replies that they complete into `tally`.
    fn skip(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), Garbage>;
}
