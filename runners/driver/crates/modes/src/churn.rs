//! Connections that are opened and closed: each sends one batch and takes its replies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef};

use crate::openings::{Connections, OpeningStats};
use crate::parallel::{CHECK_EVERY_NS, on_threads, stopped};
use engine::batch::Batch;
use engine::connection::{Connection, ConnectionError, SendTimes};
use engine::job::Job;
use engine::meter::Meter;
use engine::outcome::Outcome;
use engine::record::Record;
use engine::resources;
use engine::stage::{Span, Stage};
use machine::clock;
use machine::epoll::Epoll;
use machine::socket::Interest;
use network::channel::Channel;
use network::opening::{Opening, OpeningTimes};
use protocol::replies::Protocol;
use text::failure::{Failure, machine_failure};
use text::units::NS_PER_MS;

const BUFFER_BYTES: usize = 64 * 1024;

/// Open, send and close again and again, `job.clients` connections at a time. The latency of a request includes that of
/// its connection: it begins with the connect.
pub fn run<P: Protocol>(proto: &P, job: &Job, stage: Stage) -> Result<(Outcome, Connections), Failure> {
    resources::require_files(job.clients, 1)?;
    // One connection to each node before the load, so that a wrong server fails the run.
    let peers =
        job.nodes.iter().map(|node| Ok(node.target.open_connection()?.1)).collect::<Result<Vec<_>, _>>()?;
    let span = stage.span(clock::now());
    let threads = (0..job.threads).map(|thread| ChurnThread::new(proto, job, &peers, &span, thread));
    let threads = threads.collect::<Result<_, _>>()?;
    let done = on_threads(job, threads, |thread: ChurnThread<P>, failed| thread.run(failed))?;
    let mut openings = OpeningStats::default();
    let records = done.into_iter().map(|(record, part)| {
        openings.merge(&part);
        record
    });
    let outcome = Outcome { span, records: records.collect(), probe: None, cut: None };
    match &openings.first_loss {
        Some(loss) if openings.connect.count() == 0 => Err(Failure::run("no connection was of use", loss)),
        _ => Ok((outcome, openings.report(job, None))),
    }
}

/// One of the connections that exist at a time.
struct Slot<R> {
    /// Its number among those of all threads.
    index: usize,
    /// Requests that it may still send in the span, and those of the connection that it has.
    quota: u64,
    count: usize,
    began: u64,
    state: SlotState<R>,
    /// What the next connection goes on with.
    stream: Option<(Batch, R)>,
}

enum SlotState<R> {
    /// Between two connections, after one that was lost.
    Waiting,
    Opening(Box<Opening>, Interest),
    /// With the times of its opening until the first reply is there.
    Open(Box<Connection<R>>, Option<OpeningTimes>),
    Finished,
}

struct ChurnThread<'a, P: Protocol> {
    proto: &'a P,
    job: &'a Job,
    /// The address of each node.
    peers: &'a [SockAddr],
    span: &'a Span,
    epoll: Epoll,
    slots: Vec<Slot<P::Replies>>,
    /// Slots that are not finished.
    busy: usize,
    buffer: Vec<u8>,
    openings: OpeningStats,
}

impl<'a, P: Protocol> ChurnThread<'a, P> {
    fn new(
        proto: &'a P,
        job: &'a Job,
        peers: &'a [SockAddr],
        span: &'a Span,
        thread: usize,
    ) -> Result<Self, Failure> {
        let slot = |index| Slot {
            index,
            quota: span.quota(index, job.clients, job.script.unit()),
            count: 0,
            began: 0,
            state: SlotState::Waiting,
            stream: None,
        };
        let slots: Vec<_> = (thread..job.clients).step_by(job.threads).map(slot).collect();
        Ok(ChurnThread {
            proto,
            job,
            peers,
            span,
            epoll: Epoll::new(slots.len()).map_err(machine_failure)?,
            busy: slots.len(),
            slots,
            buffer: vec![0; BUFFER_BYTES],
            openings: OpeningStats::default(),
        })
    }

    fn run(mut self, failed: &AtomicBool) -> Result<(Record, OpeningStats), Failure> {
        let mut meter = Meter::new(*self.span, self.job.slice_ns, self.job.server_pid);
        let mut check_at = 0;
        while self.busy > 0 {
            let now = clock::now();
            meter.advance(now)?;
            if now >= check_at {
                check_at = now + CHECK_EVERY_NS;
                self.check_progress(now, failed)?;
            }
            let until = meter.edge().min(check_at).saturating_sub(now);
            let ready = self.epoll.wait(until.div_ceil(NS_PER_MS) as libc::c_int).map_err(machine_failure)?;
            for event in 0..ready {
                let at = self.epoll.ready(event).token;
                match self.handle_ready(at, &mut meter) {
                    Ok(false) => {}
                    Ok(true) => self.close(at)?,
                    Err(failure) => self.count_loss(at, failure)?,
                }
            }
        }
        Ok((meter.finish(clock::now())?, self.openings))
    }

    /// Open connections for slots that wait, and give up what takes too long.
    fn check_progress(&mut self, now: u64, failed: &AtomicBool) -> Result<(), Failure> {
        resources::check_signals()?;
        if failed.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            let index = slot.index;
            let late = now.saturating_sub(slot.began) > self.job.timeout_ns();
            let is_silent = match &mut slot.state {
                SlotState::Open(connection, _) => connection.is_silent(now, self.job.timeout_ns()),
                _ => false,
            };
            match &slot.state {
                SlotState::Waiting => self.open_next(at)?,
                SlotState::Opening(opening, _) if late => {
                    let failure = opening.timeout_failure(&self.job.node(index).target);
                    self.count_loss(at, failure)?
                }
                SlotState::Open(..) if is_silent => self.count_loss(at, self.job.silence_failure(index))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Begin the next connection of slot `at`, if the span has one for it.
    fn open_next(&mut self, at: usize) -> Result<(), Failure> {
        let slot = &mut self.slots[at];
        slot.began = clock::now();
        slot.count = self.span.allowance(slot.began, slot.quota, self.job.window_requests());
        if slot.count == 0 {
            slot.state = SlotState::Finished;
            self.busy -= 1;
            return Ok(());
        }
        slot.quota -= slot.count as u64;
        let peer = &self.peers[slot.index % self.peers.len()];
        match Opening::begin(&self.job.node(slot.index).target, peer) {
            Ok(opening) => {
                let interest = opening.interest();
                self.epoll.add_for(opening.socket(), at, interest).map_err(machine_failure)?;
                slot.state = SlotState::Opening(Box::new(opening), interest);
                Ok(())
            }
            Err(failure) => self.count_loss(at, failure),
        }
    }

    /// The socket of slot `at` is ready: whether its connection has all its replies.
    fn handle_ready(&mut self, at: usize, meter: &mut Meter) -> Result<bool, Failure> {
        match self.slots[at].state {
            SlotState::Opening(..) => self.continue_opening(at).map(|()| false),
            SlotState::Open(..) => self.receive(at, meter),
            SlotState::Waiting | SlotState::Finished => Ok(false),
        }
    }

    fn continue_opening(&mut self, at: usize) -> Result<(), Failure> {
        let Slot { index, state, .. } = &mut self.slots[at];
        let SlotState::Opening(opening, interest) = state else { return Ok(()) };
        opening.advance(&self.job.node(*index).target)?;
        if opening.is_open() {
            return self.send_batch(at);
        }
        if *interest != opening.interest() {
            *interest = opening.interest();
            self.epoll.change(opening.socket(), at, *interest).map_err(machine_failure)?;
        }
        Ok(())
    }

    /// Send the batch of an open connection.
    fn send_batch(&mut self, at: usize) -> Result<(), Failure> {
        let slot = &mut self.slots[at];
        let SlotState::Opening(opening, interest) = std::mem::replace(&mut slot.state, SlotState::Waiting)
        else {
            return Ok(());
        };
        let (channel, times) = opening.into_channel();
        let fresh = || (self.job.batch(slot.index), self.proto.replies(&self.job.script, slot.index));
        let (batch, replies) = slot.stream.take().unwrap_or_else(fresh);
        let mut connection = Connection::new(channel, batch, replies);
        connection.quota = slot.count as u64;
        let sent = connection.send_batch(slot.count);
        let awaited = if connection.has_unsent() { Interest::RepliesAndRoom } else { Interest::Replies };
        if interest != awaited {
            self.epoll.change(connection.socket(), at, awaited).map_err(machine_failure)?;
        }
        if let Err(ConnectionError::Closed) = sent {
            self.job.check_errors(&connection.last_error(&mut self.buffer), P::ERROR_MARK)?;
        }
        slot.state = SlotState::Open(Box::new(connection), Some(times));
        sent.map_err(|broken| self.job.connection_failure::<P>(slot.index, broken))
    }

    /// Send what is unsent and take the replies that are there; whether these were all.
    fn receive(&mut self, at: usize, meter: &mut Meter) -> Result<bool, Failure> {
        let Slot { index, began, state, .. } = &mut self.slots[at];
        let SlotState::Open(connection, opening) = state else { return Ok(false) };
        let broken = |broken| self.job.connection_failure::<P>(*index, broken);
        if connection.has_unsent() {
            connection.flush_more().map_err(broken)?;
            if !connection.has_unsent() {
                self.epoll.change(connection.socket(), at, Interest::Replies).map_err(machine_failure)?;
            }
        }
        let Some(received) = connection.receive(&mut self.buffer).map_err(broken)? else { return Ok(false) };
        let now = clock::now();
        let tally = connection.take_replies(now, &self.buffer[..received]).map_err(broken)?;
        self.job.check_errors(&tally, P::ERROR_MARK)?;
        if tally.replies > 0 {
            meter.count(now, SendTimes::at(*began), tally)?;
            if let Some(times) = opening.take().filter(|_| now >= self.span.counts_from) {
                self.openings.opened(times);
                self.openings.first_reply.record(now - times.open, 1);
            }
        }
        Ok(connection.is_idle())
    }

    /// Close a connection that has its replies, and open the next.
    fn close(&mut self, at: usize) -> Result<(), Failure> {
        if let SlotState::Open(connection, _) =
            std::mem::replace(&mut self.slots[at].state, SlotState::Waiting)
        {
            let (channel, batch, replies) = connection.into_parts();
            self.slots[at].stream = Some((batch, replies));
            reset_on_close(&channel, &self.peers[0])?;
        }
        self.open_next(at)
    }

    /// Count a connection that was of no use. The slot waits until the next check.
    fn count_loss(&mut self, at: usize, failure: Failure) -> Result<(), Failure> {
        self.slots[at].state = SlotState::Waiting;
        self.openings.count_loss(self.job, failure)
    }
}

/// Close with a reset: the side that closes first would otherwise keep the port for a minute (TIME_WAIT), and a machine
/// has fewer than 65536 of them.
fn reset_on_close(channel: &Channel, peer: &SockAddr) -> Result<(), Failure> {
    match peer.domain() {
        Domain::UNIX => Ok(()),
        _ => SockRef::from(&channel.socket()).set_linger(Some(Duration::ZERO)).map_err(machine_failure),
    }
}
