//! The closed loop: a connection sends when replies give its window room, as fast as the pace allows.

use crate::job::Window;
use crate::stage::Span;
use crate::worker::Worker;
use machine::clock;
use machine::socket::Interest;
use protocol::replies::Protocol;
use text::failure::Failure;

impl<P: Protocol> Worker<'_, P> {
    /// Send what the window and the span allow; or queue for the pace; or leave the connection idle.
    #[inline]
    pub(super) fn send_next(&mut self, token: usize, span: &Span, now: u64) -> Result<(), Failure> {
        if span.arrivals.is_some() {
            return self.send_due(token, span, now);
        }
        let (_, connection) = &mut self.connections[token];
        let idle = connection.is_idle();
        if !idle && (self.job.window == Window::Batch || connection.has_unsent()) {
            return Ok(());
        }
        let count = span.allowance(now, connection.quota, self.room(token));
        if count == 0 {
            self.busy -= usize::from(idle);
            return Ok(());
        }
        if !self.pace.grants(now, count) {
            if idle {
                self.queue.push_back(token);
            }
            return Ok(());
        }
        self.send(token, count)
    }

    /// Send on queued connections whose turn has come, and release those whose time is over.
    #[inline]
    pub(super) fn dequeue(&mut self, span: &Span, now: u64) -> Result<(), Failure> {
        let due = |worker: &Self| now >= worker.pace.due() || now >= span.ends_at;
        while let Some(token) = self.queue.front().copied().filter(|_| due(self)) {
            self.queue.pop_front();
            self.send_next(token, span, now)?;
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, token: usize, count: usize) -> Result<(), Failure> {
        if self.connections[token].1.used() >= self.reconnect_at && !self.replace(token)? {
            return Ok(());
        }
        let (_, connection) = &mut self.connections[token];
        match connection.send_batch(count) {
            Ok(()) if connection.has_unsent() => self.await_room(token, Interest::RepliesAndRoom),
            Ok(()) => Ok(()),
            Err(broken) => self.lose(token, broken),
        }
    }

    /// A rolling window may have got room while its last burst was held up.
    pub(super) fn refill(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        match self.connections[token].1.is_idle() && span.arrivals.is_none() {
            true => Ok(()),
            false => self.send_next(token, span, clock::now()),
        }
    }
}
