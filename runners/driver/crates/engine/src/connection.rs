//! One connection: its requests, its replies, and what it still waits for.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use crate::batch::Batch;
use crate::liveness::Pulse;
use crate::schedule::Schedule;
use machine::clock;
use network::channel::Channel;
use protocol::replies::{Garbage, Replies, Tally};

/// Why a connection can no longer be used.
#[derive(Debug)]
pub enum Broken {
    Closed,
    Io(io::Error),
    Garbage(Garbage),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Broken::Closed,
            _ => Broken::Io(error),
        }
    }
}

/// When requests began, ns on the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Begin {
    /// When they were to be sent. Without a schedule that is when they were.
    pub due_at: u64,
    pub sent_at: u64,
}

impl Begin {
    /// Of what is sent at once, without a schedule.
    #[inline]
    pub fn at(moment: u64) -> Begin {
        Begin { due_at: moment, sent_at: moment }
    }
}

/// Requests that began together.
#[derive(Clone, Copy, Default)]
struct Burst {
    begin: Begin,
    unanswered: u64,
}

pub struct Connection<R> {
    channel: Channel,
    batch: Batch,
    replies: R,
    /// Replies to come.
    awaited: u64,
    /// The bursts that are in flight. A batch window has one.
    oldest: Burst,
    younger: VecDeque<Burst>,
    /// Bytes of the last burst: `sent` of `length` are with the kernel.
    sent: usize,
    length: usize,
    /// Whether nothing was sent since it was opened.
    fresh: bool,
    /// Requests that may still be sent in this span.
    pub quota: u64,
    pulse: Pulse,
    /// What an open loop sends in this span.
    pub schedule: Option<Schedule>,
    /// The place in the script of the command that the next reply answers.
    answered: usize,
    /// Whether its turn is in the agenda.
    pub has_turn: bool,
    /// The moments that are being sent, kept for their memory.
    taken: Vec<u64>,
    /// Whether window or socket took no more when something was last sent, and when that was over.
    full: bool,
    room_at: u64,
}

impl<R: Replies> Connection<R> {
    pub fn new(channel: Channel, batch: Batch, replies: R) -> Connection<R> {
        Connection {
            channel,
            batch,
            replies,
            awaited: 0,
            oldest: Burst::default(),
            younger: VecDeque::new(),
            sent: 0,
            length: 0,
            fresh: true,
            quota: 0,
            pulse: Pulse::default(),
            schedule: None,
            answered: 0,
            has_turn: false,
            taken: Vec::new(),
            full: false,
            room_at: 0,
        }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.channel.socket()
    }

    /// Go on over another channel; the one before is closed.
    pub fn renew(&mut self, channel: Channel) {
        self.channel = channel;
        self.fresh = true;
    }

    /// What another connection can go on with.
    pub fn into_parts(self) -> (Channel, Batch, R) {
        (self.channel, self.batch, self.replies)
    }

    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        self.awaited == 0
    }

    /// Replies to come.
    #[inline]
    pub fn awaited(&self) -> usize {
        self.awaited as usize
    }

    /// Whether the kernel has not yet taken all bytes of the last burst.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.sent < self.length || self.channel.holds_back()
    }

    /// Begin the next `count` requests and send what the socket takes. Nothing may be unsent.
    #[inline]
    pub fn send_batch(&mut self, count: usize) -> Result<(), Broken> {
        let now = self.prepare(count);
        self.await_burst(Begin::at(now), count as u64);
        self.flush()
    }

    /// Begin what is due at `now`, at most `most` moments of the schedule with `unit` requests each, and send what the
    /// socket takes; `late` is told when each was due and how much later it was sent although there was room.
    pub fn send_due(
        &mut self,
        now: u64,
        most: usize,
        unit: usize,
        mut late: impl FnMut(u64, u64),
    ) -> Result<(), Broken> {
        let Some(schedule) = &mut self.schedule else { return Ok(()) };
        if most > 0 && std::mem::take(&mut self.full) {
            self.room_at = now;
        }
        self.taken.clear();
        while self.taken.len() < most && schedule.due() <= now {
            self.taken.push(schedule.take());
        }
        if self.taken.is_empty() {
            return Ok(());
        }
        let sent_at = self.prepare(self.taken.len() * unit);
        for at in 0..self.taken.len() {
            let due_at = self.taken[at];
            late(due_at, sent_at.saturating_sub(due_at.max(self.room_at)));
            self.await_burst(Begin { due_at, sent_at }, unit as u64);
        }
        self.flush()?;
        self.full = self.taken.len() == most || self.has_unsent();
        Ok(())
    }

    /// When the next request of the schedule is due; `u64::MAX` when none is left.
    pub fn next_due(&self) -> u64 {
        self.schedule.as_ref().map_or(u64::MAX, Schedule::due)
    }

    /// Render the next `count` requests; the moment from which on they are being sent.
    #[inline]
    fn prepare(&mut self, count: usize) -> u64 {
        if self.awaited == 0 {
            self.answered = self.batch.begins_at();
        }
        self.length = self.batch.prepare(count);
        self.sent = 0;
        self.quota -= count as u64;
        self.fresh = false;
        clock::now()
    }

    #[inline]
    fn await_burst(&mut self, begin: Begin, unanswered: u64) {
        let burst = Burst { begin, unanswered };
        match self.awaited {
            0 => {
                self.oldest = burst;
                self.pulse.beat(begin.sent_at);
            }
            _ => self.younger.push_back(burst),
        }
        self.awaited += unanswered;
    }

    /// Send more of the burst, as much as the socket takes.
    #[inline]
    pub fn flush(&mut self) -> Result<(), Broken> {
        while self.has_unsent() {
            match self.channel.send(&self.batch.bytes()[self.sent..self.length]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The same, when the socket has got room: the server has taken bytes.
    pub fn flush_more(&mut self) -> Result<(), Broken> {
        self.pulse.beat(clock::now());
        self.flush()
    }

    /// Whether replies are awaited and no byte has moved for longer than `timeout_ns`; to be asked now and then.
    #[inline]
    pub fn is_still(&mut self, now: u64, timeout_ns: u64) -> bool {
        !self.is_idle() && self.pulse.is_still(self.channel.socket(), now, timeout_ns)
    }

    /// Receive into `buffer`; the number of bytes, none when nothing is there.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Broken> {
        loop {
            return match self.channel.recv(buffer) {
                Ok(0) => Err(Broken::Closed),
                Ok(received) => Ok(Some(received)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Whether nothing more was there, after `receive` had room for `room` bytes and gave `received` of them.
    #[inline]
    pub fn is_drained(&self, received: usize, room: usize) -> bool {
        self.channel.is_drained(received, room)
    }

    /// The replies that `bytes`, received at `now`, complete.
    #[inline]
    pub fn take_replies(&mut self, now: u64, bytes: &[u8]) -> Result<Tally, Broken> {
        let mut tally = Tally::default();
        self.replies.skip(bytes, &mut tally).map_err(Broken::Garbage)?;
        if tally.replies > self.awaited {
            let more = tally.replies - self.awaited;
            return Err(Broken::Garbage(Garbage(format!("the server sent {more} replies too many"))));
        }
        self.awaited -= tally.replies;
        self.pulse.beat(now);
        Ok(tally)
    }

    /// What a server has said that closed the connection; nothing, if that is no reply.
    #[cold]
    pub fn last_words(&mut self, buffer: &mut [u8]) -> Tally {
        let received = self.receive(buffer).ok().flatten().unwrap_or(0);
        self.take_replies(clock::now(), &buffer[..received]).unwrap_or_default()
    }

    /// The number, in the script, of the command that the next reply answers; then comes the one after it.
    #[inline]
    pub fn next_answered(&mut self) -> usize {
        let (command, after) = self.batch.command_at(self.answered);
        self.answered = after;
        command
    }

    /// Of `replies` that were taken: how many answer the oldest burst, and when that began.
    #[inline]
    pub fn land(&mut self, replies: u64) -> (u64, Begin) {
        let Burst { begin, unanswered } = self.oldest;
        let landed = replies.min(unanswered);
        self.oldest.unanswered -= landed;
        if self.oldest.unanswered == 0
            && let Some(next) = self.younger.pop_front()
        {
            self.oldest = next;
        }
        (landed, begin)
    }
}
