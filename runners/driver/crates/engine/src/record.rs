//! What one thread counted in a span.

use crate::batch::Sent;
use crate::histogram::{Gain, Histogram};
use machine::counters::Counted;
use machine::process::ProcessUsage;
use machine::this_thread::Usage;
use protocol::replies::Tally;

/// What one thread counted of one command of several.
#[derive(Clone, Default)]
pub struct CommandRecord {
    /// Replies inside the window.
    pub inside: u64,
    pub latency: Histogram,
    /// What `latency` gained in each interval.
    pub intervals: Vec<Gain>,
}

/// Bytes that went over connections, in the window or not.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// Of replies.
    pub received_bytes: u64,
    /// For each command of the script some requests with their bytes: all when their lengths vary.
    pub sent: Vec<Sent>,
}

impl Traffic {
    pub fn add(&mut self, other: &Traffic) {
        self.received_bytes += other.received_bytes;
        self.sent.resize(other.sent.len(), Sent::default());
        self.sent.iter_mut().zip(&other.sent).for_each(|(sum, sent)| sum.add(*sent));
    }
}

/// What one thread counted in a span.
#[derive(Clone, Default)]
pub struct Record {
    /// Latency from the intended start: the moment at which the schedule said to send the request.
    pub latency: Histogram,
    /// Service time: from the moment the request was sent. Empty without a schedule, where both are the same.
    pub service: Histogram,
    /// How late requests that were due in the window were sent although the connection had room.
    pub slip: Histogram,
    /// Requests that were due before the end of the window and were never sent.
    pub unsent: u64,
    /// Replies inside the window.
    pub inside: Tally,
    /// Of each command of the script, when it has several.
    pub commands: Vec<CommandRecord>,
    /// Replies to requests that were in flight when the window closed.
    pub unfinished: u64,
    /// Replies per slice; the last slice may be shorter than the others.
    pub slices: Vec<u64>,
    /// CPU clock of the server at the window's begin and at the end of each slice; empty without a server pid.
    pub server_ns: Vec<u64>,
    /// Context switches and page faults of the server in the window; none without a server pid.
    pub server_usage: Option<ProcessUsage>,
    /// CPU time that the thread had used at the window's begin and at the end of each slice, ns.
    pub client_ns: Vec<u64>,
    /// What `latency` gained in each interval; the last has what came after the window, too. Empty unless asked for.
    pub intervals: Vec<Gain>,
    pub traffic: Traffic,
    /// Time in the window for which the thread polled for replies until its next turn.
    pub spun_ns: u64,
    /// What the kernel counted of the server in the window; none when it was not requested or not counted all the time.
    pub counted: Option<Vec<Counted>>,
    /// What the thread used in the window.
    pub usage: Usage,
    /// How long it was ready in the window and waited for a CPU, ns; none when the kernel does not report it.
    pub run_delay_ns: Option<u64>,
    /// When the thread saw the window open and close, monotonic ns.
    pub opened_at: u64,
    pub closed_at: u64,
    /// When nothing was in flight any more.
    pub ended_at: u64,
}
