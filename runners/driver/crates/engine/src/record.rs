//! What one thread counted in a span.

use crate::batch::Sent;
use crate::client_log::ClientLog;
use crate::histogram::{Gain, Histogram};
use crate::outcome::Cut;
use crate::recovery::Losses;
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

/// The bytes sent and received over the whole life of the connections, not only in the window.
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

/// Add what was counted of each command in `more`.
pub fn add_commands(sums: &mut Vec<CommandRecord>, more: &[CommandRecord]) {
    sums.resize_with(more.len(), CommandRecord::default);
    for (sum, command) in sums.iter_mut().zip(more) {
        sum.inside += command.inside;
        sum.latency.merge(&command.latency);
        merge_gains(&mut sum.intervals, &command.intervals);
    }
}

/// Add the gains of one thread, interval by interval.
pub fn merge_gains(total: &mut Vec<Gain>, gains: &[Gain]) {
    total.resize(total.len().max(gains.len()), Gain::default());
    total.iter_mut().zip(gains).for_each(|(sum, gain)| sum.merge(gain));
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
    /// Replies inside the window by node, when there are several.
    pub nodes: Vec<u64>,
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
    pub losses: Losses,
    /// When its connections were open, monotonic ns.
    pub opened: Vec<u64>,
    /// What each connection counted, where that is asked for.
    pub clients: Vec<ClientLog>,
    /// Why the thread gave up before the end.
    pub cut: Option<Cut>,
}

impl Record {
    /// Add what the same thread counted in a later span, as one slice more. The time between the spans is left out: the
    /// window grows by the span alone.
    pub fn append(&mut self, later: &Record) {
        if self.slices.is_empty() {
            (self.opened_at, self.closed_at) = (later.opened_at, later.opened_at);
            self.client_ns.push(0);
            self.run_delay_ns = Some(0);
        }
        self.slices.push(later.inside.replies);
        self.closed_at += later.closed_at - later.opened_at;
        self.ended_at = later.ended_at;
        self.usage = self.usage.plus(later.usage);
        self.client_ns.push(self.usage.cpu_ns());
        self.run_delay_ns = self.run_delay_ns.zip(later.run_delay_ns).map(|(sum, more)| sum + more);
        self.spun_ns += later.spun_ns;
        self.unsent += later.unsent;
        self.unfinished += later.unfinished;
        self.inside.add(later.inside.clone());
        self.latency.merge(&later.latency);
        self.service.merge(&later.service);
        self.slip.merge(&later.slip);
        self.traffic.add(&later.traffic);
        add_commands(&mut self.commands, &later.commands);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(opened_at: u64, closed_at: u64, replies: u64) -> Record {
        let mut record = Record { opened_at, closed_at, run_delay_ns: Some(3), ..Record::default() };
        record.usage.user_ns = 10;
        record.inside.replies = replies;
        record.latency.record(100, replies);
        record
    }

    #[test]
    fn later_spans_are_slices_and_the_gaps_are_left_out() {
        let mut sum = Record::default();
        sum.append(&counted(1000, 1020, 7));
        sum.append(&counted(5000, 5030, 5));
        assert_eq!((sum.opened_at, sum.closed_at), (1000, 1050));
        assert_eq!((sum.slices, sum.client_ns), (vec![7, 5], vec![0, 10, 20]));
        assert_eq!((sum.inside.replies, sum.latency.count(), sum.run_delay_ns), (12, 12, Some(6)));
    }
}
