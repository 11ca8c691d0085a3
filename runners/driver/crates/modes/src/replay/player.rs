//! A thread that sends what was read for its connections, when it is due or as fast as the server answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use super::block::Block;
use super::link::{Flight, Link};
use engine::connection::ConnectionError;
use engine::histogram::Histogram;
use engine::job::{Job, Window};
use engine::meter::Meter;
use engine::outcome::Cut;
use engine::record::Record;
use engine::resources;
use engine::stage::Span;
use engine::turn_queue::TurnQueue;
use machine::epoll::{Epoll, Ready};
use machine::socket::{self, Interest};
use machine::{clock, this_thread};
use protocol::replies::{Protocol, ProtocolError, Replies, Tally};
use text::failure::{Failure, machine_failure};

const BUFFER_BYTES: usize = 64 * 1024;
/// Silent servers and failures of other threads are checked for this often.
const CHECK_EVERY_NS: u64 = 100_000_000;
/// The thread polls for turns that are nearer than this: to sleep and wake up takes about as long.
const SPIN_NS: u64 = 50_000;
/// A thread that may lack requests looks for more after this.
const LOOK_NS: u64 = 200_000;
/// So much waits in the connections of a thread at most, but for one block.
const HELD_BYTES: usize = 4 << 20;
const HELD_REQUESTS: usize = 1 << 16;

/// Where blocks come from, and where they go when they are empty.
pub struct Inlet {
    pub blocks: Receiver<Block>,
    pub spare: Sender<Block>,
}

/// What a thread did.
pub struct Played {
    pub record: Record,
    /// Requests that were sent, and those that it had and did not send.
    pub sent: u64,
    pub unsent: u64,
}

pub struct Player<'a, P: Protocol> {
    job: &'a Job,
    thread: usize,
    epoll: Epoll,
    links: Vec<Link<P::Replies>>,
    inlet: Inlet,
    /// Whether no more blocks come.
    ended: bool,
    is_paced: bool,
    begins_at: u64,
    turns: TurnQueue,
    /// What waits in all connections: bytes and requests.
    held: (usize, usize),
    in_flight: usize,
    sent: u64,
    unsent: u64,
    slip: Histogram,
    buffer: Vec<u8>,
    /// Connections that got requests from the last blocks.
    touched: Vec<usize>,
}

impl<'a, P: Protocol> Player<'a, P> {
    /// Connect the connections that fall to thread number `thread`.
    pub fn connect(
        proto: &P,
        job: &'a Job,
        thread: usize,
        inlet: Inlet,
        is_paced: bool,
    ) -> Result<Self, Failure> {
        let mine = (thread..job.clients).step_by(job.threads);
        let epoll = Epoll::edge_triggered(mine.len()).map_err(machine_failure)?;
        let mut links = Vec::with_capacity(mine.len());
        for (token, index) in mine.enumerate() {
            let channel = job.node(index).target.connect()?;
            socket::set_nonblocking(channel.socket()).map_err(machine_failure)?;
            epoll.add(channel.socket(), token).map_err(machine_failure)?;
            links.push(Link::new(channel, proto.replies(&job.script, index)));
        }
        Ok(Player {
            job,
            thread,
            epoll,
            links,
            inlet,
            ended: false,
            is_paced,
            begins_at: 0,
            turns: TurnQueue::default(),
            held: (0, 0),
            in_flight: 0,
            sent: 0,
            unsent: 0,
            slip: Histogram::default(),
            buffer: vec![0; BUFFER_BYTES],
            touched: Vec::new(),
        })
    }

    /// Send all that comes in `span`, or until `stopped`. When it fails, the record is cut short.
    pub fn run(mut self, span: &Span, stopped: &AtomicBool) -> Played {
        this_thread::wake_punctually();
        self.begins_at = span.begins_at;
        let mut meter = Meter::new(*span, self.job.slice_ns, self.job.server_pid)
            .with_intervals(self.job.interval_slices)
            .with_counters(self.job.counters.clone());
        let pinned = resources::pin(self.job, self.thread);
        // Replies that come before the begin would not count.
        thread::sleep(Duration::from_nanos(span.begins_at.saturating_sub(clock::now())));
        let ended = pinned.and_then(|()| self.drive(span, &mut meter, stopped));
        let now = clock::now();
        let record = match ended {
            Ok(true) => meter.finish(now).map_err(|failure| Cut { at: now, failure }),
            Ok(false) => Ok(meter.finish_cut(now, None)),
            Err(failure) => Ok(meter.finish_cut(now, Some(Cut { at: now, failure }))),
        };
        let record = record.unwrap_or_else(|cut| Record { cut: Some(cut), ..Record::default() });
        stopped.fetch_or(record.cut.is_some(), Ordering::Relaxed);
        self.forget_waiting();
        while let Ok(block) = self.inlet.blocks.try_recv() {
            self.unsent += block.items.len() as u64;
        }
        let record = Record { slip: self.slip, unsent: self.unsent, ..record };
        Played { record, sent: self.sent, unsent: self.unsent }
    }

    /// Whether it came to the end; not when the threads are to stop.
    fn drive(&mut self, span: &Span, meter: &mut Meter, stopped: &AtomicBool) -> Result<bool, Failure> {
        let (mut now, mut check_at) = (clock::now(), 0);
        loop {
            meter.advance(now)?;
            if now >= check_at {
                check_at = now + CHECK_EVERY_NS;
                if stopped.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                self.check_progress(now)?;
            }
            if now >= span.ends_at && !self.is_paced && !self.ended {
                self.ended = true;
                self.forget_waiting();
            }
            self.take_blocks()?;
            self.take_turns()?;
            if self.ended && self.held.1 == 0 && self.in_flight == 0 {
                return Ok(true);
            }
            let end = if self.is_paced || self.ended { u64::MAX } else { span.ends_at };
            let until = meter.edge().min(check_at).min(end);
            let ready = self.wait(until, meter)?;
            now = clock::now();
            for event in 0..ready {
                self.handle_ready(event, meter)?;
                self.take_turns()?;
            }
        }
    }

    /// Wait for replies, but not longer than `until`, the next turn, or a look for more requests.
    fn wait(&mut self, until: u64, meter: &mut Meter) -> Result<usize, Failure> {
        let now = clock::now();
        let (until, turn) =
            (until.min(if self.lacks() { now + LOOK_NS } else { u64::MAX }), self.turns.next_at());
        if self.lacks() && self.in_flight == 0 && turn == u64::MAX {
            self.await_block(until.saturating_sub(now))?;
            return Ok(0);
        }
        let left = until.min(turn).saturating_sub(now);
        let ready = match turn < u64::MAX && left <= SPIN_NS {
            false if turn < until => self.epoll.wait_ns(left - SPIN_NS),
            false => self.epoll.wait_ns(left),
            true => {
                let ready = self.epoll.wait(0);
                if let Ok(0) = ready {
                    meter.add_spinning(clock::now() - now);
                }
                ready
            }
        };
        ready.map_err(machine_failure)
    }

    /// Whether there is room for more requests than there are.
    fn lacks(&self) -> bool {
        !self.ended && self.held.0 < HELD_BYTES && self.held.1 < HELD_REQUESTS
    }

    fn await_block(&mut self, ns: u64) -> Result<(), Failure> {
        match self.inlet.blocks.recv_timeout(Duration::from_nanos(ns)) {
            Ok(block) => self.take_block(block),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.ended = true,
        }
        self.send_touched()
    }

    /// Take the blocks that are there, as far as there is room for them.
    fn take_blocks(&mut self) -> Result<(), Failure> {
        while self.lacks() {
            match self.inlet.blocks.try_recv() {
                Ok(block) => self.take_block(block),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.ended = true,
            }
        }
        self.send_touched()
    }

    fn take_block(&mut self, mut block: Block) {
        let mut at = 0;
        for item in &block.items {
            let bytes = &block.bytes[at..at + item.bytes];
            let due_at = if self.is_paced { self.begins_at + item.due_ns } else { 0 };
            let token = item.token as usize;
            let link = &mut self.links[token];
            link.push(item, bytes, due_at);
            if !std::mem::replace(&mut link.is_touched, true) {
                self.touched.push(token);
            }
            at += item.bytes;
        }
        self.held.0 += block.bytes.len();
        self.held.1 += block.items.len();
        block.clear();
        // Without its reader nobody needs it any more.
        let _ = self.inlet.spare.send(block);
    }

    fn send_touched(&mut self) -> Result<(), Failure> {
        while let Some(token) = self.touched.pop() {
            self.links[token].is_touched = false;
            self.send_next(token)?;
        }
        Ok(())
    }

    /// Send on all connections whose turn has come.
    fn take_turns(&mut self) -> Result<(), Failure> {
        while self.turns.next_at() < u64::MAX {
            let Some(token) = self.turns.take(clock::now()) else { break };
            self.links[token].has_turn = false;
            self.send_next(token)?;
        }
        Ok(())
    }

    /// Send what is due and has room, and note when more will be.
    fn send_next(&mut self, token: usize) -> Result<(), Failure> {
        let link = &mut self.links[token];
        if link.has_turn || link.has_unsent() || link.next_due().is_none() {
            return Ok(());
        }
        let waits = self.job.window == Window::Batch && !self.is_paced && !link.flights.is_empty();
        let room = if waits { 0 } else { self.job.pipeline.saturating_sub(link.flights.len()) };
        let slip = &mut self.slip;
        let (count, bytes) =
            link.release(clock::now(), room, self.is_paced, |late_ns| slip.record(late_ns, 1));
        (self.held.0, self.held.1) = (self.held.0 - bytes, self.held.1 - count);
        self.in_flight += count;
        self.sent += count as u64;
        if let Err(broken) = link.flush() {
            return Err(self.failure_of(token, broken));
        }
        if link.has_unsent() {
            return self.await_room(token, Interest::RepliesAndRoom);
        }
        if let Some(due_at) = link.next_due().filter(|_| count < room) {
            link.has_turn = true;
            self.turns.put(due_at, token);
        }
        Ok(())
    }

    fn handle_ready(&mut self, event: usize, meter: &mut Meter) -> Result<(), Failure> {
        let ready = self.epoll.ready(event);
        if ready.room {
            let link = &mut self.links[ready.token];
            if let Err(broken) = link.flush_more() {
                return Err(self.failure_of(ready.token, broken));
            }
            if !link.has_unsent() {
                self.await_room(ready.token, Interest::Replies)?;
                self.send_next(ready.token)?;
            }
        }
        self.receive(ready, meter)
    }

    /// Take the replies that are there; send what their completion allows.
    fn receive(&mut self, ready: Ready, meter: &mut Meter) -> Result<(), Failure> {
        let token = ready.token;
        loop {
            let (received, drained) = match self.links[token].receive(&mut self.buffer) {
                Ok(Some(received)) => received,
                Ok(None) => return Ok(()),
                Err(ConnectionError::Closed) if self.ended && self.held.1 == 0 && self.in_flight == 0 => {
                    return Ok(());
                }
                Err(broken) => return Err(self.failure_of(token, broken)),
            };
            self.take_replies(token, received, meter)?;
            self.send_next(token)?;
            let is_lost = ready.ended && !self.links[token].flights.is_empty();
            if drained && !is_lost {
                return Ok(());
            }
        }
    }

    /// Count the replies in the first `received` bytes of the buffer.
    fn take_replies(&mut self, token: usize, received: usize, meter: &mut Meter) -> Result<(), Failure> {
        let (now, mut at) = (clock::now(), 0);
        while at < received {
            let (link, mut tally) = (&mut self.links[token], Tally::default());
            let taken = match link.replies.skip_one(&self.buffer[at..received], &mut tally) {
                Ok((taken, _)) => taken,
                Err(wrong) => return Err(self.failure_of(token, ConnectionError::ProtocolError(wrong))),
            };
            at += taken;
            if tally.pushes > 0 {
                meter.count_pushes(now, tally.pushes)?;
            }
            if tally.replies == 0 {
                continue;
            }
            match link.flights.front_mut() {
                None => {
                    let wrong = ProtocolError("the server sent a reply too many".to_owned());
                    return Err(self.failure_of(token, ConnectionError::ProtocolError(wrong)));
                }
                Some(flight) if flight.unasked > 0 => flight.unasked -= 1,
                Some(flight) => {
                    let flight = *flight;
                    link.flights.pop_front();
                    self.in_flight -= 1;
                    count(meter, now, flight, tally)?;
                }
            }
        }
        Ok(())
    }

    fn await_room(&self, token: usize, interest: Interest) -> Result<(), Failure> {
        self.epoll.change(self.links[token].socket(), token, interest).map_err(machine_failure)
    }

    fn check_progress(&mut self, now: u64) -> Result<(), Failure> {
        resources::check_signals()?;
        let timeout_ns = self.job.timeout_ns();
        match (0..self.links.len()).find(|token| self.links[*token].is_silent(now, timeout_ns)) {
            None => Ok(()),
            Some(token) => Err(self.job.silence_failure(token)),
        }
    }

    fn failure_of(&self, token: usize, broken: ConnectionError) -> Failure {
        self.job.connection_failure::<P>(token, broken)
    }

    /// Nothing more is sent.
    fn forget_waiting(&mut self) {
        self.unsent += self.links.iter_mut().map(Link::forget_waiting).sum::<u64>();
        self.held = (0, 0);
    }
}

/// Count the reply to `flight`.
fn count(meter: &mut Meter, now: u64, flight: Flight, mut tally: Tally) -> Result<(), Failure> {
    // Replies of memcached tell themselves whether the key was there.
    if flight.reads && tally.errors + tally.hits + tally.misses == 0 {
        let is_miss = u64::from(tally.nulls > 0);
        (tally.hits, tally.misses) = (1 - is_miss, is_miss);
    }
    meter.count(now, flight.begin, tally)?;
    meter.count_command(usize::from(flight.command), now, flight.begin);
    Ok(())
}
