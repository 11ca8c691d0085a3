//! One connection of a replay: what waits for its turn, what is in flight, and the bytes between.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use super::block::Item;
use engine::connection::{ConnectionError, SendTimes};
use engine::liveness::Liveness;
use machine::clock;
use network::channel::Channel;

/// Sent bytes are dropped when there are so many.
const DROPPED_BYTES: usize = 64 * 1024;
/// An idle connection keeps no more room than this.
const KEPT_BYTES: usize = 256 * 1024;

/// A request that waits for its turn.
struct Waiting {
    due_at: u64,
    bytes: usize,
    flight: Flight,
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
pub struct Flight {
    pub begin: SendTimes,
    pub command: u16,
    /// Replies that come before its own.
    pub unasked: u8,
    pub reads: bool,
}

pub struct Link<R> {
    channel: Channel,
    pub replies: R,
    bytes: Vec<u8>,
    /// Of the bytes: sent, and allowed to be sent.
    sent: usize,
    allowed: usize,
    waiting: VecDeque<Waiting>,
    pub flights: VecDeque<Flight>,
    liveness: Liveness,
    /// Whether its turn is in the queue of turns, or it is to be looked at.
    pub has_turn: bool,
    pub is_touched: bool,
    /// Whether there was no room for more after the last send, and when there was room again.
    full: bool,
    room_at: u64,
}

impl<R> Link<R> {
    pub fn new(channel: Channel, replies: R) -> Link<R> {
        Link {
            channel,
            replies,
            bytes: Vec::new(),
            sent: 0,
            allowed: 0,
            waiting: VecDeque::new(),
            flights: VecDeque::new(),
            liveness: Liveness::default(),
            has_turn: false,
            is_touched: false,
            full: false,
            room_at: 0,
        }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.channel.socket()
    }

    /// Let `item`, which is written as `bytes`, wait until `due_at`.
    pub fn push(&mut self, item: &Item, bytes: &[u8], due_at: u64) {
        self.bytes.extend_from_slice(bytes);
        let flight = Flight {
            begin: SendTimes::default(),
            command: item.command,
            unasked: item.unasked,
            reads: item.reads,
        };
        self.waiting.push_back(Waiting { due_at, bytes: bytes.len(), flight });
    }

    /// When the next request is due; none when none waits.
    pub fn next_due(&self) -> Option<u64> {
        self.waiting.front().map(|waiting| waiting.due_at)
    }

    /// Forget what waits; how many requests that was.
    pub fn forget_waiting(&mut self) -> u64 {
        let count = self.waiting.len() as u64;
        self.waiting.clear();
        self.bytes.truncate(self.allowed);
        count
    }

    /// Begin what is due at `now`, at most `most` requests: how many, and their bytes. `late` receives when each was due
    /// and how late it is although there was room. Without times each is due at once.
    pub fn release(
        &mut self,
        now: u64,
        most: usize,
        is_paced: bool,
        mut late: impl FnMut(u64),
    ) -> (usize, usize) {
        if most > 0 && std::mem::take(&mut self.full) {
            self.room_at = now;
        }
        let (mut count, mut bytes) = (0, 0);
        while count < most
            && let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.due_at <= now)
        {
            let due_at = if is_paced { waiting.due_at } else { now };
            late(now.saturating_sub(due_at.max(self.room_at)));
            if self.flights.is_empty() {
                self.liveness.moved(now);
            }
            self.flights.push_back(Flight { begin: SendTimes { due_at, sent_at: now }, ..waiting.flight });
            (count, bytes) = (count + 1, bytes + waiting.bytes);
        }
        self.allowed += bytes;
        self.full = count == most;
        (count, bytes)
    }

    pub fn has_unsent(&self) -> bool {
        self.sent < self.allowed || self.channel.holds_back()
    }

    /// Send as much of what was begun as the socket takes.
    pub fn flush(&mut self) -> Result<(), ConnectionError> {
        while self.has_unsent() {
            match self.channel.send(&self.bytes[self.sent..self.allowed]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.full |= self.has_unsent();
        self.drop_sent();
        Ok(())
    }

    /// The same, after the socket has got room: the server has read bytes.
    pub fn flush_more(&mut self) -> Result<(), ConnectionError> {
        self.liveness.moved(clock::now());
        self.flush()
    }

    fn drop_sent(&mut self) {
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
        } else if self.sent >= DROPPED_BYTES && self.sent >= self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
        } else {
            return;
        }
        (self.sent, self.allowed) = (0, self.allowed - self.sent);
    }

    /// Receive into `buffer`: how many bytes, and whether these were all; none when nothing is there.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<(usize, bool)>, ConnectionError> {
        loop {
            return match self.channel.recv(buffer) {
                Ok(0) => Err(ConnectionError::Closed),
                Ok(received) => {
                    self.liveness.moved(clock::now());
                    Ok(Some((received, self.channel.is_drained(received, buffer.len()))))
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Whether replies are awaited and no byte has moved for longer than `timeout_ns`.
    pub fn is_silent(&mut self, now: u64, timeout_ns: u64) -> bool {
        !self.flights.is_empty() && self.liveness.is_silent(self.channel.socket(), now, timeout_ns)
    }
}
