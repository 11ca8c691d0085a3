//! Connections that come and go: each is opened, sends one batch, takes its replies and is closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, SockAddr, SockRef};

use crate::openings::{Connections, Openings};
use crate::parallel::{PATROL_NS, on_threads, stopped};
use engine::batch::Batch;
use engine::connection::{Begin, Broken, Connection};
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
use network::opening::{Dial, Moments};
use protocol::replies::Proto;
use text::failure::{Failure, machine_failure};
use text::units::NS_PER_MS;

const BUFFER_BYTES: usize = 64 * 1024;

/// Open, ask and close again and again, `job.clients` connections at a time; a request counts with its whole
/// connection: its latency begins with the connect.
pub fn run<P: Proto>(proto: &P, job: &Job, stage: Stage) -> Result<(Outcome, Connections), Failure> {
    resources::require_files(job.clients, 1)?;
    // What is wrong with the server is told by a connection before the load.
    let peers = job.nodes.iter().map(|node| Ok(node.target.reach()?.1)).collect::<Result<Vec<_>, _>>()?;
    let span = stage.span(clock::now());
    let churners = (0..job.threads).map(|thread| Churner::new(proto, job, &peers, &span, thread));
    let churners = churners.collect::<Result<_, _>>()?;
    let done = on_threads(job, churners, |churner: Churner<P>, failed| churner.run(failed))?;
    let mut openings = Openings::default();
    let records = done.into_iter().map(|(record, part)| {
        openings.merge(&part);
        record
    });
    let outcome = Outcome { span, records: records.collect(), probe: None };
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
    life: Life<R>,
    /// What the next connection goes on with.
    stream: Option<(Batch, R)>,
}

enum Life<R> {
    /// Between two connections, after one that was lost.
    Resting,
    Dialing(Box<Dial>, Interest),
    /// With the moments of its opening until the first reply is there.
    Asking(Box<Connection<R>>, Option<Moments>),
    Over,
}

struct Churner<'a, P: Proto> {
    proto: &'a P,
    job: &'a Job,
    /// The address of each node.
    peers: &'a [SockAddr],
    span: &'a Span,
    epoll: Epoll,
    slots: Vec<Slot<P::Replies>>,
    /// Slots whose life is not over.
    busy: usize,
    buffer: Vec<u8>,
    openings: Openings,
}

impl<'a, P: Proto> Churner<'a, P> {
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
            life: Life::Resting,
            stream: None,
        };
        let slots: Vec<_> = (thread..job.clients).step_by(job.threads).map(slot).collect();
        Ok(Churner {
            proto,
            job,
            peers,
            span,
            epoll: Epoll::new(slots.len()).map_err(machine_failure)?,
            busy: slots.len(),
            slots,
            buffer: vec![0; BUFFER_BYTES],
            openings: Openings::default(),
        })
    }

    fn run(mut self, failed: &AtomicBool) -> Result<(Record, Openings), Failure> {
        let mut meter = Meter::new(*self.span, self.job.slice_ns, self.job.server_pid);
        let mut patrol_at = 0;
        while self.busy > 0 {
            let now = clock::now();
            meter.reach(now)?;
            if now >= patrol_at {
                patrol_at = now + PATROL_NS;
                self.patrol(now, failed)?;
            }
            let until = meter.edge().min(patrol_at).saturating_sub(now);
            let ready = self.epoll.wait(until.div_ceil(NS_PER_MS) as libc::c_int).map_err(machine_failure)?;
            for event in 0..ready {
                let at = self.epoll.ready(event).token;
                match self.serve(at, &mut meter) {
                    Ok(false) => {}
                    Ok(true) => self.end(at)?,
                    Err(failure) => self.lose(at, failure)?,
                }
            }
        }
        Ok((meter.finish(clock::now())?, self.openings))
    }

    /// Begin what rests, and give up what takes too long.
    fn patrol(&mut self, now: u64, failed: &AtomicBool) -> Result<(), Failure> {
        if failed.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        for at in 0..self.slots.len() {
            let slot = &mut self.slots[at];
            let index = slot.index;
            let late = now.saturating_sub(slot.began) > self.job.timeout_ns();
            let is_still = match &mut slot.life {
                Life::Asking(connection, _) => connection.is_still(now, self.job.timeout_ns()),
                _ => false,
            };
            match &slot.life {
                Life::Resting => self.begin(at)?,
                Life::Dialing(dial, _) if late => {
                    let failure = dial.too_slow(&self.job.node(index).target);
                    self.lose(at, failure)?
                }
                Life::Asking(..) if is_still => self.lose(at, self.job.silent(index))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Begin the next connection of slot `at`, if the span has one for it.
    fn begin(&mut self, at: usize) -> Result<(), Failure> {
        let slot = &mut self.slots[at];
        slot.began = clock::now();
        slot.count = self.span.allowance(slot.began, slot.quota, self.job.window_requests());
        if slot.count == 0 {
            slot.life = Life::Over;
            self.busy -= 1;
            return Ok(());
        }
        slot.quota -= slot.count as u64;
        let peer = &self.peers[slot.index % self.peers.len()];
        match Dial::begin(&self.job.node(slot.index).target, peer) {
            Ok(dial) => {
                let interest = dial.interest();
                self.epoll.add_for(dial.socket(), at, interest).map_err(machine_failure)?;
                slot.life = Life::Dialing(Box::new(dial), interest);
                Ok(())
            }
            Err(failure) => self.lose(at, failure),
        }
    }

    /// The socket of slot `at` is ready: whether its connection has done all it is for.
    fn serve(&mut self, at: usize, meter: &mut Meter) -> Result<bool, Failure> {
        match self.slots[at].life {
            Life::Dialing(..) => self.go_on(at).map(|()| false),
            Life::Asking(..) => self.hear(at, meter),
            Life::Resting | Life::Over => Ok(false),
        }
    }

    fn go_on(&mut self, at: usize) -> Result<(), Failure> {
        let Slot { index, life, .. } = &mut self.slots[at];
        let Life::Dialing(dial, interest) = life else { return Ok(()) };
        dial.go_on(&self.job.node(*index).target)?;
        if dial.is_open() {
            return self.ask(at);
        }
        if *interest != dial.interest() {
            *interest = dial.interest();
            self.epoll.change(dial.socket(), at, *interest).map_err(machine_failure)?;
        }
        Ok(())
    }

    /// Send the batch of an open connection.
    fn ask(&mut self, at: usize) -> Result<(), Failure> {
        let slot = &mut self.slots[at];
        let Life::Dialing(dial, interest) = std::mem::replace(&mut slot.life, Life::Resting) else {
            return Ok(());
        };
        let (channel, moments) = dial.into_channel();
        let fresh = || (self.job.batch(slot.index), self.proto.replies(&self.job.script, slot.index));
        let (batch, replies) = slot.stream.take().unwrap_or_else(fresh);
        let mut connection = Connection::new(channel, batch, replies);
        connection.quota = slot.count as u64;
        let sent = connection.send_batch(slot.count);
        let wanted = if connection.has_unsent() { Interest::RepliesAndRoom } else { Interest::Replies };
        if interest != wanted {
            self.epoll.change(connection.socket(), at, wanted).map_err(machine_failure)?;
        }
        if let Err(Broken::Closed) = sent {
            self.job.accept(&connection.last_words(&mut self.buffer), P::ERROR_MARK)?;
        }
        slot.life = Life::Asking(Box::new(connection), Some(moments));
        sent.map_err(|broken| self.job.broken::<P>(slot.index, broken))
    }

    /// Send what is unsent and take the replies that are there; whether these were all.
    fn hear(&mut self, at: usize, meter: &mut Meter) -> Result<bool, Failure> {
        let Slot { index, began, life, .. } = &mut self.slots[at];
        let Life::Asking(connection, opening) = life else { return Ok(false) };
        let broken = |broken| self.job.broken::<P>(*index, broken);
        if connection.has_unsent() {
            connection.flush_more().map_err(broken)?;
            if !connection.has_unsent() {
                self.epoll.change(connection.socket(), at, Interest::Replies).map_err(machine_failure)?;
            }
        }
        let Some(received) = connection.receive(&mut self.buffer).map_err(broken)? else { return Ok(false) };
        let now = clock::now();
        let tally = connection.take_replies(now, &self.buffer[..received]).map_err(broken)?;
        self.job.accept(&tally, P::ERROR_MARK)?;
        if tally.replies > 0 {
            meter.count(now, Begin::at(*began), tally)?;
            if let Some(moments) = opening.take().filter(|_| now >= self.span.counts_from) {
                self.openings.opened(moments);
                self.openings.first_reply.record(now - moments.open, 1);
            }
        }
        Ok(connection.is_idle())
    }

    /// Close a connection that has done its part, and begin the next.
    fn end(&mut self, at: usize) -> Result<(), Failure> {
        if let Life::Asking(connection, _) = std::mem::replace(&mut self.slots[at].life, Life::Resting) {
            let (channel, batch, replies) = connection.into_parts();
            self.slots[at].stream = Some((batch, replies));
            forget(&channel, &self.peers[0])?;
        }
        self.begin(at)
    }

    /// Count a connection that was of no use. The slot rests until the next patrol.
    fn lose(&mut self, at: usize, failure: Failure) -> Result<(), Failure> {
        self.slots[at].life = Life::Resting;
        self.openings.lose(self.job, failure)
    }
}

/// Close with a reset: the side that closes first would otherwise keep the port for a minute (TIME_WAIT), and a machine
/// has fewer than 65536 of them.
fn forget(channel: &Channel, peer: &SockAddr) -> Result<(), Failure> {
    match peer.domain() {
        Domain::UNIX => Ok(()),
        _ => SockRef::from(&channel.socket()).set_linger(Some(Duration::ZERO)).map_err(machine_failure),
    }
}
