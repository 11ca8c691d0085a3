//! What one thread counts in the window, and the clocks it reads at the window's edges.

use std::io;
use std::sync::Arc;

use crate::connection::SendTimes;
use crate::histogram::Histogram;
use crate::outcome::Cut;
use crate::record::{CommandRecord, Record};
use crate::recovery::LEAST_GAP_NS;
use crate::server_process::{read_server_clock, read_server_usage};
use crate::stage::Span;
use machine::counters::Counters;
use machine::perf::PerfReading;
use machine::process::ProcessUsage;
use machine::this_thread::{self, Usage};
use protocol::replies::Tally;
use text::failure::Failure;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Window,
    Drain,
}

pub struct Meter {
    span: Span,
    slice_ns: u64,
    server_pid: Option<u32>,
    phase: Phase,
    /// The next moment at which the phase or the slice changes.
    edge: u64,
    opened: Usage,
    server_opened: Option<ProcessUsage>,
    counters: Option<Arc<Result<Counters, String>>>,
    counted_before: Vec<PerfReading>,
    log: Option<Log>,
    delay_before: Option<u64>,
    /// Whether the load goes on without its server: times without an answer are noted.
    goes_on: bool,
    /// When the last request was answered.
    answered_at: u64,
    /// Replies that were just received, by their commands.
    answered: Vec<u64>,
    counts_parts: bool,
    record: Record,
}

/// Latencies by intervals of so many slices.
struct Log {
    slices: usize,
    /// The latencies at the end of the last interval.
    before: Histogram,
    /// The same of each command.
    commands_before: Vec<Histogram>,
}

impl Meter {
    pub fn new(span: Span, slice_ns: u64, server_pid: Option<u32>) -> Meter {
        Meter {
            span,
            slice_ns,
            server_pid,
            phase: Phase::WarmUp,
            edge: span.counts_from.min(span.closes_at),
            opened: Usage::default(),
            server_opened: None,
            counters: None,
            counted_before: Vec::new(),
            log: None,
            delay_before: None,
            goes_on: false,
            answered_at: 0,
            answered: Vec::new(),
            counts_parts: false,
            record: Record::default(),
        }
    }

    /// Count the latencies by intervals of so many slices, too; those of the commands that are known by now, as well.
    pub fn with_intervals(mut self, slices: Option<usize>) -> Meter {
        self.log = slices.map(|slices| Log {
            slices,
            before: Histogram::default(),
            commands_before: vec![Histogram::default(); self.record.commands.len()],
        });
        self
    }

    /// Note times without an answer, and go on when the process of the server is gone.
    pub fn going_on(mut self, goes_on: bool) -> Meter {
        self.goes_on = goes_on;
        self
    }

    /// Let `count` count replies, received at `now`, that answer nothing.
    #[cold]
    pub fn while_refused<T>(&mut self, now: u64, count: impl FnOnce(&mut Meter) -> T) -> T {
        let answered_at = std::mem::replace(&mut self.answered_at, now);
        let counted = count(self);
        self.answered_at = answered_at;
        counted
    }

    #[cold]
    fn note_gap(&mut self, until: u64) {
        if self.goes_on && until > self.answered_at + LEAST_GAP_NS {
            self.record.losses.gaps.push((self.answered_at, until));
        }
    }

    /// Read what the kernel counts of the server, too.
    pub fn with_counters(mut self, counters: Option<Arc<Result<Counters, String>>>) -> Meter {
        self.counters = counters;
        self
    }

    /// Count each of the `commands` of a script, when it has several, or when they are counted by client.
    pub fn with_commands(mut self, commands: usize, by_client: bool) -> Meter {
        let commands = if commands > 1 || by_client { commands } else { 0 };
        self.record.commands.resize_with(commands, CommandRecord::default);
        self.answered = vec![0; commands];
        self.counts_parts |= commands > 0;
        self
    }

    /// Count by node, when there are several.
    pub fn with_nodes(mut self, nodes: usize) -> Meter {
        if nodes > 1 {
            self.record.nodes.resize(nodes, 0);
            self.counts_parts = true;
        }
        self
    }

    /// What was counted so far.
    pub fn record(&self) -> &Record {
        &self.record
    }

    pub fn edge(&self) -> u64 {
        self.edge
    }

    /// Advance the window to `now`. Cheap unless an edge has been reached.
    #[inline]
    pub fn advance(&mut self, now: u64) -> Result<(), Failure> {
        if now < self.edge { Ok(()) } else { self.cross_edge(now) }
    }

    /// Count time that the thread polled without a reply.
    pub fn add_spinning(&mut self, ns: u64) {
        if self.phase == Phase::Window {
            self.record.spun_ns += ns;
        }
    }

    /// Count replies received at `now` to requests that began at `begin`.
    #[inline(always)]
    pub fn count(&mut self, now: u64, begin: SendTimes, tally: Tally) -> Result<(), Failure> {
        self.advance(now)?;
        if self.phase == Phase::WarmUp {
            return Ok(());
        }
        if now - self.answered_at > LEAST_GAP_NS {
            self.note_gap(now);
        }
        self.answered_at = now;
        self.record.latency.record(now - begin.due_at, tally.replies);
        if self.span.arrivals.is_some() {
            self.record.service.record(now - begin.sent_at, tally.replies);
        }
        if self.phase == Phase::Drain {
            self.record.unfinished += tally.replies;
            return Ok(());
        }
        if let Some(slice) = self.record.slices.last_mut() {
            *slice += tally.replies;
        }
        self.record.inside.add(tally);
        Ok(())
    }

    /// Count push frames that came without a reply at `now`.
    #[cold]
    pub fn count_pushes(&mut self, now: u64, pushes: u64) -> Result<(), Failure> {
        self.advance(now)?;
        if self.phase == Phase::Window {
            self.record.inside.pushes += pushes;
        }
        Ok(())
    }

    /// Whether replies are also counted by command or by node.
    #[inline]
    pub fn counts_parts(&self) -> bool {
        self.counts_parts
    }

    /// Whether they are counted by their commands.
    pub fn counts_commands(&self) -> bool {
        !self.record.commands.is_empty()
    }

    /// Count `replies` of the node of this number, after [`Meter::count`] has counted them.
    pub fn count_node(&mut self, node: usize, replies: u64) {
        if let Some(inside) = self.record.nodes.get_mut(node).filter(|_| self.phase == Phase::Window) {
            *inside += replies;
        }
    }

    /// Room for the replies to each command, all 0.
    pub fn answered(&mut self) -> &mut [u64] {
        &mut self.answered
    }

    /// Count the replies in [`Meter::answered`], after [`Meter::count`] has counted their sum, and make them 0.
    pub fn count_commands(&mut self, now: u64, begin: SendTimes) {
        for (record, answered) in self.record.commands.iter_mut().zip(&mut self.answered) {
            let replies = std::mem::take(answered);
            if replies > 0 && self.phase != Phase::WarmUp {
                record.latency.record(now - begin.due_at, replies);
                record.inside += if self.phase == Phase::Window { replies } else { 0 };
            }
        }
    }

    /// Count one reply, received at `now`, to the command of this number, after [`Meter::count`] has counted it: for loads
    /// whose commands are not known before.
    pub fn count_command(&mut self, command: usize, now: u64, begin: SendTimes) {
        if command >= self.record.commands.len() {
            self.record.commands.resize_with(command + 1, CommandRecord::default);
            if let Some(log) = &mut self.log {
                log.commands_before.resize_with(command + 1, Histogram::default);
            }
        }
        if self.phase != Phase::WarmUp {
            let record = &mut self.record.commands[command];
            record.latency.record(now - begin.due_at, 1);
            record.inside += u64::from(self.phase == Phase::Window);
        }
    }

    #[cold]
    fn cross_edge(&mut self, now: u64) -> Result<(), Failure> {
        while now >= self.edge {
            match self.phase {
                Phase::WarmUp if self.span.counts_from <= self.edge => self.open(now)?,
                Phase::Window if self.edge < self.span.closes_at => self.next_slice()?,
                Phase::Window => self.close(now)?,
                Phase::WarmUp | Phase::Drain => self.drain(),
            }
        }
        Ok(())
    }

    fn open(&mut self, now: u64) -> Result<(), Failure> {
        self.phase = Phase::Window;
        self.record.opened_at = now;
        self.answered_at = self.span.counts_from;
        self.record.slices.push(0);
        self.server_opened = self.server_pid.map(read_server_usage).transpose()?;
        self.delay_before = this_thread::run_delay_ns();
        if let Some(counters) = self.counters() {
            self.counted_before = counters.read().map_err(counter_lost)?;
        }
        self.opened = self.read_clocks()?;
        self.edge = self.slice_end(self.span.counts_from);
        Ok(())
    }

    fn next_slice(&mut self) -> Result<(), Failure> {
        if self.log.as_ref().is_some_and(|log| self.record.slices.len().is_multiple_of(log.slices)) {
            self.end_interval();
        }
        self.record.slices.push(0);
        self.read_clocks()?;
        self.edge = self.slice_end(self.edge);
        Ok(())
    }

    fn slice_end(&self, begin: u64) -> u64 {
        begin.saturating_add(self.slice_ns).min(self.span.closes_at)
    }

    fn close(&mut self, now: u64) -> Result<(), Failure> {
        self.record.usage = self.read_clocks()?.since(self.opened);
        let server_closed = self.server_pid.map(read_server_usage).transpose()?;
        self.record.server_usage =
            server_closed.zip(self.server_opened).map(|(closed, opened)| closed.since(opened));
        if let Some(counters) = self.counters() {
            let closed = counters.read().map_err(counter_lost)?;
            self.record.counted = counters.between(&self.counted_before, &closed);
        }
        let delay_after = this_thread::run_delay_ns();
        self.record.run_delay_ns = delay_after.zip(self.delay_before).map(|(after, before)| after - before);
        self.record.closed_at = now;
        self.note_gap(now.min(self.span.closes_at));
        self.drain();
        Ok(())
    }

    fn counters(&self) -> Option<&Counters> {
        self.counters.as_deref()?.as_ref().ok()
    }

    fn end_interval(&mut self) {
        if let Some(log) = &mut self.log {
            self.record.intervals.push(self.record.latency.gained_since(&mut log.before));
            for (command, before) in self.record.commands.iter_mut().zip(&mut log.commands_before) {
                command.intervals.push(command.latency.gained_since(before));
            }
        }
    }

    fn drain(&mut self) {
        self.phase = Phase::Drain;
        self.edge = u64::MAX;
    }

    /// Note the CPU time of the server and of this thread; the latter's usage so far.
    fn read_clocks(&mut self) -> Result<Usage, Failure> {
        if let Some(pid) = self.server_pid {
            match read_server_clock(pid) {
                Ok(ns) => self.record.server_ns.push(ns),
                Err(_) if self.goes_on => self.forget_server(),
                Err(failure) => return Err(failure),
            }
        }
        let usage = Usage::of_this_thread();
        self.record.client_ns.push(usage.cpu_ns());
        Ok(usage)
    }

    /// The record of a span that was cut short at `now`, at which `cut` tells why. The server may be gone, and then what it
    /// used is not known.
    pub fn finish_cut(mut self, now: u64, cut: Option<Cut>) -> Record {
        if self.phase == Phase::Window && self.close(now).is_err() {
            self.forget_server();
            // Its own clocks the thread can always read.
            let _ = self.close(now);
        }
        self.end_interval();
        self.record.ended_at = now;
        self.record.cut = cut;
        self.record
    }

    /// The server is gone: nothing is known of what it used.
    fn forget_server(&mut self) {
        (self.server_pid, self.counters) = (None, None);
        self.record.server_ns.clear();
    }

    /// The record, once nothing is in flight any more. A window without a planned end closes here, at `now`.
    pub fn finish(mut self, now: u64) -> Result<Record, Failure> {
        self.advance(now)?;
        if self.phase == Phase::Window {
            self.close(now)?;
        }
        self.end_interval();
        self.record.ended_at = now;
        Ok(self.record)
    }
}

fn counter_lost(error: io::Error) -> Failure {
    Failure::run(format!("cannot read the counters of the server ({error})"), "leave out --server-events")
}
