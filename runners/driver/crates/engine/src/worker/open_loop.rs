//! The open loop: requests are sent when they are due, as far as there is room.

use crate::schedule::Schedule;
use crate::stage::Span;
use crate::worker::{DRAIN_PART, Worker};
use machine::clock;
use machine::socket::Interest;
use protocol::replies::Protocol;
use text::failure::Failure;

impl<P: Protocol> Worker<'_, P> {
    /// Send what is due and has room, in an open loop. What has none keeps its place in the schedule.
    pub(super) fn send_due(&mut self, token: usize, span: &Span, now: u64) -> Result<(), Failure> {
        let unit = self.job.script.unit();
        let (_, connection) = &mut self.connections[token];
        if connection.has_turn || connection.has_unsent() {
            return Ok(());
        }
        let drained = now >= span.ends_at.saturating_add(self.job.timeout_ns() / DRAIN_PART);
        let room = if drained { 0 } else { self.room(token) / unit };
        let (_, connection) = &mut self.connections[token];
        let is_due = room > 0 && connection.next_due() <= now;
        if is_due && self.is_used_up(token) && !self.replace(token)? {
            return Ok(());
        }
        let (_, connection) = &mut self.connections[token];
        let slip = &mut self.slip;
        let late = |due_at, late_ns| {
            if due_at >= span.counts_from {
                slip.record(late_ns, unit as u64);
            }
        };
        if let Err(broken) = connection.send_due(now, room, unit, late) {
            return self.lose(token, broken);
        }
        if connection.has_unsent() {
            return self.await_room(token, Interest::RepliesAndRoom);
        }
        let next = if drained { u64::MAX } else { connection.next_due() };
        if next == u64::MAX {
            self.busy -= usize::from(connection.is_idle());
        } else if self.room(token) >= unit {
            self.connections[token].1.has_turn = true;
            self.turns.put(next, token);
        }
        Ok(())
    }

    /// Whether the connection has sent as many requests as one may.
    fn is_used_up(&self, token: usize) -> bool {
        self.job.reconnect_after.is_some_and(|most| self.connections[token].1.used() >= most)
    }

    /// Send on all connections whose turn has come.
    #[inline]
    pub(super) fn take_turns(&mut self, span: &Span) -> Result<(), Failure> {
        while self.turns.next_at() < u64::MAX {
            let now = clock::now();
            let Some(token) = self.turns.take(now) else { break };
            self.connections[token].1.has_turn = false;
            self.send_due(token, span, now)?;
        }
        Ok(())
    }

    /// Requests that fell due in the window and were never sent.
    pub(super) fn unsent(&mut self) -> u64 {
        let schedules = self.connections.iter_mut().filter_map(|(_, connection)| connection.schedule.take());
        schedules.map(Schedule::count).sum::<u64>() * self.job.script.unit() as u64
    }
}
