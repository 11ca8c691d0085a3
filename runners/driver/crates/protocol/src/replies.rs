//! The interface between the engine and a protocol: commands are templates, replies are skipped.

use crate::script::Script;

/// What a run of received bytes completed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Complete replies, errors and nulls included.
    pub replies: u64,
    /// Replies that say "no such key".
    pub nulls: u64,
    /// Elements of replies that say "no such key".
    pub null_elements: u64,
    /// Replies that are or contain an error.
    pub errors: u64,
    pub first_error: Option<String>,
    /// Keys that were there and keys that were not, if the skipper knows what was asked.
    pub hits: u64,
    pub misses: u64,
    /// Messages that answer nothing: push frames.
    pub pushes: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.replies += other.replies;
        self.nulls += other.nulls;
        self.null_elements += other.null_elements;
        self.errors += other.errors;
        self.hits += other.hits;
        self.misses += other.misses;
        self.pushes += other.pushes;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

/// The bytes are not of the protocol, or answer something that was not asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError(pub String);

pub trait Protocol: Sync {
    type Replies: Replies + Send;
    /// Its name in messages.
    const NAME: &'static str;
    /// What stands before the text of an error.
    const ERROR_MARK: &'static str;

    /// The skipper of the replies to `script` on connection `index`.
    fn replies(&self, script: &Script, index: usize) -> Self::Replies;
}

pub trait Replies {
    /// Begin anew: the next bytes are those of a new connection, on which the command at `place` of the script's order is
    /// sent first.
    fn restart(&mut self, place: usize);

    /// Take out the redirections (MOVED, ASK) among the replies since the last time: the number of each among the replies
    /// of its `skip`, from 0, and its text.
    fn take_redirections(&mut self) -> Vec<(u64, String)> {
        Vec::new()
    }

    /// Take the next bytes of a connection, cut anywhere; count the replies that they complete into `tally`.
    fn skip(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(), ProtocolError>;

    /// Take bytes, of which there is at least one, up to the end of a reply or of what stands between replies; how many,
    /// and whether that end was among them.
    fn skip_one(&mut self, bytes: &[u8], tally: &mut Tally) -> Result<(usize, bool), ProtocolError>;
}
