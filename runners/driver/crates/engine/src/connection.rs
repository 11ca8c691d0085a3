//! One connection: its requests, and the replies that are due.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::BorrowedFd;

use socket2::SockRef;

use crate::batch::Batch;
use crate::client_log::ClientLog;
use crate::fill_source::Tags;
use crate::liveness::Liveness;
use crate::record::Traffic;
use crate::schedule::Schedule;
use machine::clock;
use network::channel::Channel;
use protocol::replies::{ProtocolError, Replies, Tally};
use protocol::resp;

/// More requests than any connection sends.
pub const NEVER: u64 = u64::MAX / 2;

/// Why a connection can no longer be used.
#[derive(Debug)]
pub enum ConnectionError {
    Closed,
    Io(io::Error),
    ProtocolError(ProtocolError),
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ConnectionError::Closed,
            _ => ConnectionError::Io(error),
        }
    }
}

/// When requests began, ns on the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendTimes {
    /// When they were due. Without a schedule that is when they were sent.
    pub due_at: u64,
    pub sent_at: u64,
}

impl SendTimes {
    /// The times of requests without a schedule, which are sent at once.
    #[inline]
    pub fn at(moment: u64) -> SendTimes {
        SendTimes { due_at: moment, sent_at: moment }
    }
}

/// Requests that began together.
#[derive(Clone, Copy, Default)]
struct Burst {
    begin: SendTimes,
    unanswered: u64,
}

pub struct Connection<R> {
    pub node: usize,
    channel: Channel,
    batch: Batch,
    replies: R,
    awaited: u64,
    /// The bursts that are in flight. A batch window has one.
    oldest: Burst,
    younger: VecDeque<Burst>,
    /// Bytes of the last burst: the kernel has taken `sent` of `length`.
    sent: usize,
    length: usize,
    used: u64,
    /// Bytes of replies, and of requests that were sent or wait for room.
    received_bytes: u64,
    sent_bytes: u64,
    /// Requests that may still be sent in this span.
    pub quota: u64,
    liveness: Liveness,
    /// What it counted by itself, where that is asked for.
    pub log: Option<Box<ClientLog>>,
    /// What an open loop sends in this span.
    pub schedule: Option<Schedule>,
    /// The place in the script of the command that the next reply answers.
    answered: usize,
    /// Whether its turn is in the queue.
    pub has_turn: bool,
    /// The due times of the burst being sent; kept to reuse the memory.
    taken: Vec<u64>,
    /// Whether window or socket was full after the last send, and when it had room again.
    full: bool,
    room_at: u64,
}

impl<R: Replies> Connection<R> {
    pub fn new(channel: Channel, batch: Batch, replies: R) -> Connection<R> {
        Connection {
            node: 0,
            channel,
            batch,
            replies,
            awaited: 0,
            oldest: Burst::default(),
            younger: VecDeque::new(),
            sent: 0,
            length: 0,
            used: 0,
            received_bytes: 0,
            sent_bytes: 0,
            quota: 0,
            liveness: Liveness::default(),
            log: None,
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

    /// Continue over another channel; the one before is closed.
    pub fn renew(&mut self, channel: Channel) {
        self.channel = channel;
        self.used = 0;
    }

    /// Forget what is in flight, for the channel is of no use any more; how many requests that was. They may be sent again.
    #[cold]
    pub fn lose(&mut self) -> u64 {
        let lost = std::mem::take(&mut self.awaited);
        self.oldest = Burst::default();
        self.younger.clear();
        self.quota = self.quota.saturating_add(lost);
        let place = self.batch.restart();
        self.replies.restart(place);
        // A socket that is no longer connected gives an error, and is shut already.
        let _ = SockRef::from(&self.channel.socket()).shutdown(Shutdown::Both);
        lost
    }

    /// Seem busy with a burst that is not sent, so that nothing is sent.
    pub fn suspend(&mut self) {
        (self.sent, self.length) = (0, 1);
    }

    /// The end of [`Connection::suspend`].
    pub fn resume(&mut self) {
        (self.sent, self.length) = (0, 0);
    }

    /// Let it be replaced by a new connection before it sends again.
    pub fn retire(&mut self) {
        self.used = NEVER;
    }

    pub fn is_retired(&self) -> bool {
        self.used >= NEVER
    }

    pub fn set_tags(&mut self, tags: Tags) {
        self.batch.set_tags(tags);
    }

    /// See [`Replies::take_redirections`].
    pub fn take_redirections(&mut self) -> Vec<(u64, String)> {
        self.replies.take_redirections()
    }

    /// The bytes of the request to which reply number `at` of the last `taken` was the answer; none when a later burst has
    /// taken their place.
    pub fn request(&self, at: u64, taken: u64) -> Option<&[u8]> {
        let bytes = self.batch.bytes().get(..self.length)?;
        let requests = resp::requests(bytes);
        let first = (requests.len() as u64).checked_sub(self.awaited + taken)?;
        let range = requests.get((first + at) as usize)?;
        Some(&bytes[range.clone()])
    }

    /// The parts that another connection can reuse.
    pub fn into_parts(self) -> (Channel, Batch, R) {
        (self.channel, self.batch, self.replies)
    }

    /// Requests that were sent since it was opened.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Requests that may be sent before the next reconnection when there is one after each `most`; one that is due first
    /// lets all replies come in.
    #[inline]
    pub fn room_before_reconnection(&self, most: u64) -> usize {
        let left = if self.is_idle() && self.used >= most { most } else { most.saturating_sub(self.used) };
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// What went over it.
    pub fn traffic(&self) -> Traffic {
        Traffic { received_bytes: self.received_bytes, sent: self.batch.sent() }
    }

    /// Bytes in both directions.
    pub fn bytes_moved(&self) -> u64 {
        self.received_bytes + self.sent_bytes
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        self.awaited == 0
    }

    /// Replies that are still due.
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
    pub fn send_batch(&mut self, count: usize) -> Result<(), ConnectionError> {
        let now = self.prepare(count);
        self.await_burst(SendTimes::at(now), count as u64);
        self.flush()
    }

    /// Begin what is due at `now`, at most `most` moments of the schedule with `unit` requests each, and send what the
    /// socket takes; `late` receives when each was due and how late it was sent although there was room.
    pub fn send_due(
        &mut self,
        now: u64,
        most: usize,
        unit: usize,
        mut late: impl FnMut(u64, u64),
    ) -> Result<(), ConnectionError> {
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
            self.await_burst(SendTimes { due_at, sent_at }, unit as u64);
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
            if self.batch.is_dialogue() {
                self.replies.restart(self.answered);
            }
        }
        self.length = self.batch.prepare(count);
        self.sent = 0;
        self.sent_bytes += self.length as u64;
        self.quota -= count as u64;
        self.used += count as u64;
        clock::now()
    }

    #[inline]
    fn await_burst(&mut self, begin: SendTimes, unanswered: u64) {
        let burst = Burst { begin, unanswered };
        match self.awaited {
            0 => {
                self.oldest = burst;
                self.liveness.moved(begin.sent_at);
            }
            _ => self.younger.push_back(burst),
        }
        self.awaited += unanswered;
    }

    /// Send more of the burst, as much as the socket takes.
    #[inline]
    pub fn flush(&mut self) -> Result<(), ConnectionError> {
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

    /// The same, after the socket has got room: the server has read bytes.
    pub fn flush_more(&mut self) -> Result<(), ConnectionError> {
        self.liveness.moved(clock::now());
        self.flush()
    }

    /// Whether replies are awaited and no byte has moved for longer than `timeout_ns`; to be asked now and then.
    #[inline]
    pub fn is_silent(&mut self, now: u64, timeout_ns: u64) -> bool {
        !self.is_idle() && self.liveness.is_silent(self.channel.socket(), now, timeout_ns)
    }

    /// Receive into `buffer`; the number of bytes, none when nothing is there.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ConnectionError> {
        loop {
            return match self.channel.recv(buffer) {
                Ok(0) => Err(ConnectionError::Closed),
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
    pub fn take_replies(&mut self, now: u64, bytes: &[u8]) -> Result<Tally, ConnectionError> {
        let mut tally = Tally::default();
        self.replies.skip(bytes, &mut tally).map_err(ConnectionError::ProtocolError)?;
        if tally.replies > self.awaited {
            let more = tally.replies - self.awaited;
            return Err(ConnectionError::ProtocolError(ProtocolError(format!(
                "the server sent {more} replies too many"
            ))));
        }
        self.awaited -= tally.replies;
        self.batch.take_reply(bytes, tally.replies > 0).map_err(ConnectionError::ProtocolError)?;
        self.received_bytes += bytes.len() as u64;
        self.liveness.moved(now);
        Ok(tally)
    }

    /// The error that a server sent before it closed the connection, if any.
    #[cold]
    pub fn last_error(&mut self, buffer: &mut [u8]) -> Tally {
        let received = self.receive(buffer).ok().flatten().unwrap_or(0);
        self.take_replies(clock::now(), &buffer[..received]).unwrap_or_default()
    }

    /// Add the next `replies` to `counts`, which has a number for each command of the script.
    pub fn count_answered(&mut self, replies: u64, counts: &mut [u64]) {
        self.answered = self.batch.count_commands(self.answered, replies, counts);
    }

    /// The end of what it counted by itself.
    pub fn take_log(&mut self) -> Option<ClientLog> {
        let mut log = self.log.take()?;
        log.traffic = self.traffic();
        Some(*log)
    }

    /// Of `replies` that were taken: how many answer the oldest burst, and when that began.
    #[inline]
    pub fn answer_oldest(&mut self, replies: u64) -> (u64, SendTimes) {
        let Burst { begin, unanswered } = self.oldest;
        let answered = replies.min(unanswered);
        self.oldest.unanswered -= answered;
        if self.oldest.unanswered == 0
            && let Some(next) = self.younger.pop_front()
        {
            self.oldest = next;
        }
        (answered, begin)
    }
}
