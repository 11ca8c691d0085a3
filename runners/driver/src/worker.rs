//! The loop. Each thread has its own epoll set, connections, streams and counters, and shares nothing that is written.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::channel::Channel;
use crate::connection::{Broken, Connection};
use crate::crew::Shared;
use crate::failure::{Failure, machine_failure};
use crate::job::{Job, Window};
use crate::meter::{Meter, Record};
use crate::pace::Pace;
use crate::proto::{Proto, Tally};
use crate::stage::Span;
use crate::sys::{self, Epoll, Interest, NS_PER_MS};

/// Replies are received into this much; what does not fit is received by the next call.
const BUFFER_BYTES: usize = 64 * 1024;
/// Silent servers and failed neighbours are looked for this often.
const PATROL_NS: u64 = 100_000_000;

pub struct Worker<'a, P: Proto> {
    job: &'a Job,
    shared: &'a Shared,
    thread: usize,
    epoll: Epoll,
    /// With the number of each among all connections of the job.
    connections: Vec<(usize, Connection<P::Replies>)>,
    buffer: Vec<u8>,
    /// Connections that wait for replies or for their turn.
    busy: usize,
    pace: Pace,
    /// Connections that may send as soon as the pace grants it, the first come first.
    queue: VecDeque<usize>,
}

impl<'a, P: Proto> Worker<'a, P> {
    /// Connect the connections that fall to thread number `thread`.
    pub fn connect(proto: &P, job: &'a Job, thread: usize, shared: &'a Shared) -> Result<Self, Failure> {
        let mine = (thread..job.clients).step_by(job.threads);
        let epoll = Epoll::new(mine.len()).map_err(machine_failure)?;
        let mut worker = Worker {
            job,
            shared,
            thread,
            epoll,
            connections: Vec::with_capacity(mine.len()),
            buffer: vec![0; BUFFER_BYTES],
            busy: 0,
            pace: Pace::new(None, 0),
            queue: VecDeque::new(),
        };
        for (token, index) in mine.enumerate() {
            let channel = worker.open(token, index)?;
            let connection = Connection::new(channel, job.batch(index), proto.replies(&job.script, index));
            worker.connections.push((index, connection));
        }
        Ok(worker)
    }

    /// A channel to the node of connection `index`, known to epoll as `token`.
    fn open(&self, token: usize, index: usize) -> Result<Channel, Failure> {
        let channel = self.job.node(index).target.connect()?;
        sys::set_nonblocking(channel.socket()).map_err(machine_failure)?;
        self.epoll.add(channel.socket(), token).map_err(machine_failure)?;
        Ok(channel)
    }

    /// Drive the connections through `span` until nothing is in flight.
    pub fn run(&mut self, span: &Span) -> Result<Record, Failure> {
        let mut meter = Meter::new(*span, self.job.slice_ns, self.job.server_pid)
            .with_intervals(self.job.interval_slices);
        let mut now = sys::now();
        meter.reach(now)?;
        self.pace = Pace::new(self.job.rate.map(|rate| rate / self.job.threads as f64), now);
        self.begin(span, now)?;
        let mut patrol_at = now + PATROL_NS;
        while self.busy > 0 {
            let ready = self.wait(now, meter.edge().min(patrol_at))?;
            now = sys::now();
            for event in 0..ready {
                self.serve(event, span, &mut meter)?;
            }
            self.dequeue(span, now)?;
            meter.reach(now)?;
            if now >= patrol_at {
                patrol_at = now + PATROL_NS;
                self.shared.beat(self.thread, meter.so_far());
                self.patrol(now)?;
            }
        }
        meter.finish(sys::now())
    }

    fn begin(&mut self, span: &Span, now: u64) -> Result<(), Failure> {
        let unit = self.job.script.unit();
        for token in 0..self.connections.len() {
            let (index, connection) = &mut self.connections[token];
            connection.quota = span.quota(*index, self.job.clients, unit);
            self.busy += 1;
            self.send_next(token, span, now)?;
        }
        Ok(())
    }

    fn wait(&mut self, now: u64, until: u64) -> Result<usize, Failure> {
        let ready = match self.queue.is_empty() {
            true => self.epoll.wait(until.saturating_sub(now).div_ceil(NS_PER_MS) as libc::c_int),
            false => self.epoll.wait_ns(until.min(self.pace.due()).saturating_sub(now)),
        };
        ready.map_err(machine_failure)
    }

    #[inline]
    fn serve(&mut self, event: usize, span: &Span, meter: &mut Meter) -> Result<(), Failure> {
        let ready = self.epoll.ready(event);
        if ready.room {
            self.flush(ready.token, span)?;
        }
        self.receive(ready.token, span, meter)
    }

    /// Take the replies that are there; send what their completion allows.
    #[inline]
    fn receive(&mut self, token: usize, span: &Span, meter: &mut Meter) -> Result<(), Failure> {
        loop {
            let (_, connection) = &mut self.connections[token];
            let received = match connection.receive(&mut self.buffer) {
                Ok(Some(received)) => received,
                Ok(None) => return Ok(()),
                Err(broken) => return Err(self.explain(token, broken)),
            };
            let now = sys::now();
            let tally = match connection.take_replies(now, &self.buffer[..received]) {
                Ok(tally) => tally,
                Err(broken) => return Err(self.explain(token, broken)),
            };
            self.job.accept(&tally, P::ERROR_MARK)?;
            if tally.replies > 0 {
                count(meter, connection, now, tally)?;
                self.send_next(token, span, now)?;
            } else if tally.pushes > 0 {
                meter.count_pushes(now, tally.pushes)?;
            }
            if received < self.buffer.len() {
                return Ok(());
            }
        }
    }

    /// Send what the window and the span allow; or queue for the pace; or let the connection rest.
    #[inline]
    fn send_next(&mut self, token: usize, span: &Span, now: u64) -> Result<(), Failure> {
        let (_, connection) = &mut self.connections[token];
        let idle = connection.is_idle();
        if !idle && (self.job.window == Window::Batch || connection.has_unsent()) {
            return Ok(());
        }
        let room = self.job.window_requests() - connection.awaited();
        let count = span.allowance(now, connection.quota, room);
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

    /// Send for those whose turn has come, and send home those whose time is over.
    #[inline]
    fn dequeue(&mut self, span: &Span, now: u64) -> Result<(), Failure> {
        let due = |worker: &Self| now >= worker.pace.due() || now >= span.ends_at;
        while let Some(token) = self.queue.front().copied().filter(|_| due(self)) {
            self.queue.pop_front();
            self.send_next(token, span, now)?;
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, token: usize, count: usize) -> Result<(), Failure> {
        if !self.job.keepalive && !self.connections[token].1.is_fresh() {
            let channel = self.open(token, self.connections[token].0)?;
            self.connections[token].1.renew(channel);
        }
        let (_, connection) = &mut self.connections[token];
        match connection.send_batch(count) {
            Ok(()) if connection.has_unsent() => self.await_room(token, Interest::RepliesAndRoom),
            Ok(()) => Ok(()),
            Err(broken) => Err(self.explain(token, broken)),
        }
    }

    fn flush(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        let (_, connection) = &mut self.connections[token];
        match connection.flush() {
            Ok(()) if connection.has_unsent() => Ok(()),
            Ok(()) => {
                self.await_room(token, Interest::Replies)?;
                self.refill(token, span)
            }
            Err(broken) => Err(self.explain(token, broken)),
        }
    }

    /// A rolling window may have got room while its last burst was held up.
    fn refill(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        match self.connections[token].1.is_idle() {
            true => Ok(()),
            false => self.send_next(token, span, sys::now()),
        }
    }

    fn await_room(&self, token: usize, interest: Interest) -> Result<(), Failure> {
        let socket = self.connections[token].1.socket();
        self.epoll.change(socket, token, interest).map_err(machine_failure)
    }

    /// Give up when a server is silent or when another thread has given up.
    fn patrol(&self, now: u64) -> Result<(), Failure> {
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(Failure::run("stopped because another thread failed", "see its message"));
        }
        let silent = |(_, connection): &(usize, Connection<P::Replies>)| {
            !connection.is_idle() && now.saturating_sub(connection.moved_at) > self.job.timeout_ns()
        };
        match self.connections.iter().find(|connection| silent(connection)) {
            None => Ok(()),
            Some((index, _)) => Err(self.job.silent(*index)),
        }
    }

    #[cold]
    fn explain(&self, token: usize, broken: Broken) -> Failure {
        self.job.broken::<P>(self.connections[token].0, broken)
    }
}

/// Count `tally`, received at `now`: each reply with the moment at which its own request was sent.
#[inline]
fn count<R: crate::proto::Replies>(
    meter: &mut Meter,
    connection: &mut Connection<R>,
    now: u64,
    tally: Tally,
) -> Result<(), Failure> {
    let mut left = tally.replies;
    let mut told = tally;
    while left > 0 {
        let (landed, sent_at) = connection.land(left);
        let part = Tally { replies: landed, ..std::mem::take(&mut told) };
        meter.count(now, sent_at, part)?;
        left -= landed;
    }
    Ok(())
}
