//! The loop. Each thread has its own epoll set, connections, streams and counters; threads share no written memory.

mod climbing;
mod closed_loop;
mod counting;
mod open_loop;
mod publishing;
mod ramping;
mod recovering;
mod redirecting;
mod reopening;
mod trouble;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::client_log::ClientLog;
use crate::connection::{Connection, ConnectionError};
use crate::histogram::Histogram;
use crate::job::Job;
use crate::meter::Meter;
use crate::outcome::Cut;
use crate::pace::Pace;
use crate::progress::Shared;
use crate::record::{Record, Traffic};
use crate::recovery::Losses;
use crate::resources::check_signals;
use crate::schedule::{Participant, Schedule};
use crate::stage::Span;
use crate::stairs::Climb;
use crate::turn_queue::TurnQueue;
use counting::count;
use generator::rng::Rng;
use machine::clock;
use machine::epoll::{Epoll, Ready};
use machine::socket::{self, Interest};
use network::channel::Channel;
use protocol::replies::Protocol;
use text::failure::{Failure, machine_failure};
use text::units::NS_PER_MS;
use trouble::{TROUBLED, Troubles};

/// Replies are received into this much; what does not fit is received by the next call.
const BUFFER_BYTES: usize = 64 * 1024;
/// Silent servers and failures of other threads are checked for this often.
const CHECK_EVERY_NS: u64 = 100_000_000;
/// What was due in an open loop and had no room is sent after the end for this part of the timeout.
const DRAIN_PART: u64 = 4;
/// The thread polls for turns that are nearer than this: to sleep and wake up takes about as long.
const SPIN_NS: u64 = 50_000;

pub struct Worker<'a, P: Protocol> {
    job: &'a Job,
    shared: &'a Shared,
    thread: usize,
    epoll: Epoll,
    /// The numbers of the connections among which the load is shared.
    participants: Range<usize>,
    /// With the number of each among all connections of the job.
    connections: Vec<(usize, Connection<P::Replies>)>,
    buffer: Vec<u8>,
    /// Connections that wait for replies or for their turn.
    busy: usize,
    pace: Pace,
    /// Connections that may send as soon as the pace grants it, the first come first.
    queue: VecDeque<usize>,
    /// Requests that each connection may have in flight.
    window: usize,
    /// The turns of connections that have room in an open loop.
    turns: TurnQueue,
    /// How much too late requests that were due in the window were sent, although there was room.
    slip: Histogram,
    /// The next moment to look at what lasts too long.
    check_at: u64,
    /// After so many requests a connection is replaced.
    reconnect_at: u64,
    troubles: Troubles,
    climb: Climb<P::Replies>,
    /// When each connection was open, ns on the monotonic clock.
    opened: Vec<u64>,
}

impl<'a, P: Protocol> Worker<'a, P> {
    /// Connect the connections that fall to thread number `thread`; the one after the last is that of the probe.
    pub fn connect(proto: &P, job: &'a Job, thread: usize, shared: &'a Shared) -> Result<Self, Failure> {
        let probes = job.clients..job.connections();
        let (participants, own, step, window) = match thread < job.threads {
            true => (0..job.clients, job.own_clients.clone(), job.threads, job.window_requests()),
            false => (probes.clone(), probes, 1, job.script.unit()),
        };
        let mine = (own.start + thread % job.threads..own.end).step_by(step);
        let epoll = Epoll::edge_triggered(mine.len()).map_err(machine_failure)?;
        let address = |index: usize| job.node(index).target.address.clone();
        let addresses = mine.clone().filter(|_| job.recovery.is_some()).map(address).collect();
        let mut worker = Worker {
            job,
            shared,
            thread,
            participants,
            epoll,
            connections: Vec::with_capacity(mine.len()),
            buffer: vec![0; BUFFER_BYTES],
            busy: 0,
            pace: Pace::new(None, 0),
            queue: VecDeque::new(),
            window,
            turns: TurnQueue::default(),
            slip: Histogram::default(),
            check_at: 0,
            reconnect_at: job.reconnect_at(),
            troubles: Troubles::new(&job.nodes, addresses),
            climb: Climb::new(None, Vec::new()),
            opened: Vec::new(),
        };
        let stairs = job.stairs.filter(|_| thread < job.threads);
        let mut mine = mine.map(|index| (index, proto.replies(&job.script, index)));
        let first = stairs.map_or(usize::MAX, |stairs| stairs.first);
        let mut rng = Rng::stream(job.seed, (job.connections() + thread) as u64);
        for (index, replies) in mine.by_ref().take(first) {
            if let Some(jitter) = job.jitter.filter(|_| !worker.connections.is_empty()) {
                jitter.pause(&mut rng)?;
            }
            worker.add(index, replies)?;
        }
        worker.climb = Climb::new(stairs, mine.collect());
        Ok(worker)
    }

    /// Open connection `index`.
    fn add(&mut self, index: usize, replies: P::Replies) -> Result<(), Failure> {
        let channel = self.open(self.connections.len(), index)?;
        let mut connection = Connection::new(channel, self.job.batch(index), replies);
        connection.node = index % self.job.nodes.len();
        self.connections.push((index, connection));
        self.opened.push(clock::now());
        Ok(())
    }

    /// A channel to the node of connection `index`, known to epoll as `token`.
    fn open(&self, token: usize, index: usize) -> Result<Channel, Failure> {
        let channel = self.troubles.node(index).target.connect()?;
        socket::set_nonblocking(channel.socket()).map_err(machine_failure)?;
        let event = self.troubles.event_token(token);
        self.epoll.add(channel.socket(), event).map_err(machine_failure)?;
        Ok(channel)
    }

    /// Drive the connections through `span` until nothing is in flight and its time is over. When that fails, or the
    /// threads are to stop, the record is cut short and the connections are of no further use.
    pub fn run(&mut self, span: &Span) -> Record {
        let mut meter = self.meter(span);
        let ended = self.drive(span, &mut meter);
        let now = clock::now();
        let record = match ended {
            Ok(true) => meter.finish(now).map_err(|failure| Cut { at: now, failure }),
            Ok(false) => Ok(meter.finish_cut(now, None)),
            Err(failure) => Ok(meter.finish_cut(now, Some(Cut { at: now, failure }))),
        };
        let record = record.unwrap_or_else(|cut| Record { cut: Some(cut), ..Record::default() });
        if record.cut.is_none() {
            self.publish(span, &record);
        }
        let losses = self.end_losses(now);
        let losses = Losses { gaps: record.losses.gaps.clone(), ..losses };
        let mut traffic = Traffic::default();
        self.connections.iter().for_each(|(_, connection)| traffic.add(&connection.traffic()));
        let clients =
            self.connections.iter_mut().filter_map(|(_, connection)| connection.take_log()).collect();
        let (slip, opened) = (std::mem::take(&mut self.slip), self.opened.clone());
        Record { slip, unsent: self.unsent(), traffic, losses, opened, clients, ..record }
    }

    /// Whether it came to the end of the span; not when the threads are to stop.
    fn drive(&mut self, span: &Span, meter: &mut Meter) -> Result<bool, Failure> {
        let mut now = clock::now();
        meter.advance(now)?;
        self.pace = Pace::new(self.job.rate.map(|rate| rate / self.job.threads as f64), now);
        self.check_at = now + CHECK_EVERY_NS;
        self.troubles.begin(span);
        self.begin(span, now)?;
        while self.busy > 0 || now < span.lasts_until() {
            let ready = self.wait(now, meter.edge().min(self.check_at).min(self.climb.at), meter)?;
            now = clock::now();
            for event in 0..ready {
                self.handle_ready(event, span, meter)?;
                self.take_turns(span)?;
            }
            self.dequeue(span, now)?;
            self.take_turns(span)?;
            meter.advance(now)?;
            if now >= self.climb.at {
                self.climb(span)?;
            }
            if now >= self.check_at {
                self.check_at = now + CHECK_EVERY_NS;
                self.publish(span, meter.record());
                if self.shared.stopped.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                self.check_progress(now)?;
                if self.troubles.is_troubled() {
                    self.go_on(span, now)?;
                }
            }
        }
        Ok(true)
    }

    fn meter(&self, span: &Span) -> Meter {
        Meter::new(*span, self.job.slice_ns, self.job.server_pid)
            .with_commands(self.job.script.commands.len(), self.job.by_client)
            .with_nodes(self.job.nodes.len())
            .with_intervals(self.job.interval_slices)
            .with_counters(self.job.counters.clone())
            .going_on(self.job.recovery.is_some())
    }

    fn begin(&mut self, span: &Span, now: u64) -> Result<(), Failure> {
        self.climb.begin(span.begins_at);
        if let Some(clients) = &span.clients {
            return self.begin_ramp(clients, span, now);
        }
        (0..self.connections.len()).try_for_each(|token| self.begin_on(token, span, (span.begins_at, now)))
    }

    /// Let the connection take its share of the span, at `now`; what of a schedule is due before `from` is left out.
    fn begin_on(&mut self, token: usize, span: &Span, (from, now): (u64, u64)) -> Result<(), Failure> {
        let (unit, clients) = (self.job.script.unit(), self.participants.len());
        let (index, connection) = &mut self.connections[token];
        let index = *index - self.participants.start;
        let commands = self.job.script.commands.len();
        connection.log = self.job.by_client.then(|| Box::new(ClientLog::new(commands, now)));
        connection.quota = span.quota(index, clients, unit);
        connection.schedule = span.arrivals.map(|arrivals| {
            let participant = Participant { seed: self.job.seed, index, clients, unit };
            let mut schedule = Schedule::new(arrivals, participant, span.begins_at, span.ends_at);
            schedule.skip_to(from);
            schedule
        });
        self.busy += 1;
        match self.is_pausing(token) {
            true => self.wait_for(token),
            false => self.send_next(token, span, now)?,
        }
        Ok(())
    }

    /// Wait for replies, but not longer than `until` or the next turn.
    fn wait(&mut self, now: u64, until: u64, meter: &mut Meter) -> Result<usize, Failure> {
        let ready = match (self.queue.is_empty(), self.turns.next_at()) {
            (true, u64::MAX) => self.epoll.wait(until.saturating_sub(now).div_ceil(NS_PER_MS) as libc::c_int),
            (true, turn) => self.wait_awake(until.min(turn), meter),
            (false, _) => self.epoll.wait_ns(until.min(self.pace.due()).saturating_sub(now)),
        };
        ready.map_err(machine_failure)
    }

    /// Sleep until shortly before `until`, then look without sleeping.
    fn wait_awake(&mut self, until: u64, meter: &mut Meter) -> io::Result<usize> {
        let now = clock::now();
        let left = until.saturating_sub(now);
        if left > SPIN_NS {
            return self.epoll.wait_ns(left - SPIN_NS);
        }
        let ready = self.epoll.wait(0)?;
        if ready == 0 {
            meter.add_spinning(clock::now() - now);
        }
        Ok(ready)
    }

    #[inline]
    fn handle_ready(&mut self, event: usize, span: &Span, meter: &mut Meter) -> Result<(), Failure> {
        let ready = self.epoll.ready(event);
        if ready.token >= TROUBLED {
            return self.handle_troubled(ready, span, meter);
        }
        if ready.room {
            self.flush(ready.token, span)?;
        }
        self.receive::<false>(ready, span, meter)
    }

    /// Take the replies that are there; send what their completion allows. The first good one ends the trouble of a
    /// connection that is `ON_TRIAL`.
    #[inline]
    fn receive<const ON_TRIAL: bool>(
        &mut self,
        ready: Ready,
        span: &Span,
        meter: &mut Meter,
    ) -> Result<(), Failure> {
        let token = ready.token;
        loop {
            let (_, connection) = &mut self.connections[token];
            let received = match connection.receive(&mut self.buffer) {
                Ok(Some(received)) => received,
                Ok(None) => return Ok(()),
                Err(broken) => return self.lose(token, broken),
            };
            let now = clock::now();
            let tally = match connection.take_replies(now, &self.buffer[..received]) {
                Ok(tally) => tally,
                Err(broken) => return self.lose(token, broken),
            };
            if ON_TRIAL && tally.replies > tally.errors {
                self.recover(token, now)?;
            }
            let (_, connection) = &mut self.connections[token];
            if tally.first_error.is_some() {
                self.take_errors(token, span, meter, tally)?;
            } else if tally.replies > 0 {
                count(meter, connection, now, tally)?;
                self.send_next(token, span, now)?;
            } else if tally.pushes > 0 {
                meter.count_pushes(now, tally.pushes)?;
            }
            let (_, connection) = &self.connections[token];
            let is_lost = ready.ended && !connection.is_idle();
            if connection.is_drained(received, self.buffer.len()) && !is_lost {
                return Ok(());
            }
        }
    }

    /// Requests that a connection may send now: its window has room for them, and they come before its replacement.
    #[inline]
    fn room(&self, token: usize) -> usize {
        let (_, connection) = &self.connections[token];
        let before =
            self.job.reconnect_after.map_or(usize::MAX, |most| connection.room_before_reconnection(most));
        before.min(self.window - connection.awaited())
    }

    fn flush(&mut self, token: usize, span: &Span) -> Result<(), Failure> {
        let (_, connection) = &mut self.connections[token];
        match connection.flush_more() {
            Ok(()) if connection.has_unsent() => Ok(()),
            Ok(()) => {
                self.await_room(token, Interest::Replies)?;
                self.refill(token, span)
            }
            Err(broken) => self.lose(token, broken),
        }
    }

    fn await_room(&self, token: usize, interest: Interest) -> Result<(), Failure> {
        let socket = self.connections[token].1.socket();
        let token = self.troubles.event_token(token);
        self.epoll.change(socket, token, interest).map_err(machine_failure)
    }

    /// Give up when a server is silent, or when the program was asked to end.
    fn check_progress(&mut self, now: u64) -> Result<(), Failure> {
        check_signals()?;
        self.job.check_items()?;
        if self.job.recovery.is_some() {
            self.lose_silent(now)?;
            return Ok(());
        }
        let timeout_ns = self.job.timeout_ns();
        match self
            .connections
            .iter_mut()
            .find_map(|(index, it)| it.is_silent(now, timeout_ns).then_some(*index))
        {
            None => Ok(()),
            Some(index) => Err(self.job.silence_failure(index)),
        }
    }

    #[cold]
    fn failure_of(&mut self, token: usize, broken: ConnectionError) -> Failure {
        let (index, connection) = &mut self.connections[token];
        // A server may send an error before it closes a connection.
        if let ConnectionError::Closed = broken
            && let Err(failure) =
                self.job.check_errors(&connection.last_error(&mut self.buffer), P::ERROR_MARK)
        {
            return failure;
        }
        self.job.connection_failure::<P>(*index, broken)
    }
}
