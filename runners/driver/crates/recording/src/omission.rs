//! Why recorded requests are not sent again, and what was left out.

use serde::Serialize;

/// Why a recorded request is not sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Script,
    Connection,
    Select,
    Subscription,
    Blocking,
    Administration,
    Redacted,
    TooLarge,
    NoCounterpart,
    Unreadable,
    Cut,
}

impl Reason {
    const ALL: [Reason; 11] = [
        Reason::Script,
        Reason::Connection,
        Reason::Select,
        Reason::Subscription,
        Reason::Blocking,
        Reason::Administration,
        Reason::Redacted,
        Reason::TooLarge,
        Reason::NoCounterpart,
        Reason::Unreadable,
        Reason::Cut,
    ];

    pub fn text(self) -> &'static str {
        match self {
            Reason::Script => "called by a script, which is sent again",
            Reason::Connection => "belongs to the recorded connection (AUTH, CLIENT, WATCH ...)",
            Reason::Select => "SELECT, which is sent where a connection's database changes",
            Reason::Subscription => "a subscription, which would turn its connection into a listener",
            Reason::Blocking => "blocks its connection (BLPOP, WAIT ...)",
            Reason::Administration => "administers the server (CONFIG, SHUTDOWN ...)",
            Reason::Redacted => "its words are redacted in the recording",
            Reason::TooLarge => "larger than 16 MiB: send it by hand",
            Reason::NoCounterpart => "the server has no such command",
            Reason::Unreadable => "not a request of this format: correct it, or give --format",
            Reason::Cut => "the file ends in the middle of it: copy the file again",
        }
    }
}

/// Requests that were left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Omitted {
    pub reason: &'static str,
    pub count: u64,
    /// `line 12`, or `byte 3456`.
    pub first: String,
}

/// What was left out, by reason.
#[derive(Debug, Clone, Default)]
pub struct Omissions {
    counted: [Option<(u64, String)>; Reason::ALL.len()],
}

impl Omissions {
    pub fn add(&mut self, reason: Reason, place: impl FnOnce() -> String) {
        self.counted[reason as usize].get_or_insert_with(|| (0, place())).0 += 1;
    }

    pub fn total(&self) -> u64 {
        self.counted.iter().flatten().map(|(count, _)| count).sum()
    }

    pub fn report(&self) -> Vec<Omitted> {
        let all = Reason::ALL.into_iter().zip(&self.counted);
        let present = all.filter_map(|(reason, counted)| Some((reason, counted.clone()?)));
        present.map(|(reason, (count, first))| Omitted { reason: reason.text(), count, first }).collect()
    }
}
