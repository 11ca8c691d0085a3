//! One connection: its requests, its replies, and what it still waits for.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use crate::batch::Batch;
use crate::channel::Channel;
use crate::proto::{Garbage, Replies, Tally};
use crate::sys;

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

/// Requests that were sent together.
#[derive(Clone, Copy, Default)]
struct Burst {
    sent_at: u64,
    unanswered: u64,
}

pub struct Connection<R> {
    channel: Channel,
    batch: Batch,
    replies: R,
    /// Replies to come.
    awaited: u64,
    /// The bursts that are in flight. There is more than one only in a rolling window.
    oldest: Burst,
    younger: VecDeque<Burst>,
    /// Bytes of the last burst: `sent` of `length` are with the kernel.
    sent: usize,
    length: usize,
    /// Whether nothing was sent since it was opened.
    fresh: bool,
    /// Requests that may still be sent in this span.
    pub quota: u64,
    /// When the connection last sent a burst or completed a reply.
    pub moved_at: u64,
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
            moved_at: 0,
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
        self.length = self.batch.prepare(count);
        self.sent = 0;
        self.quota -= count as u64;
        self.fresh = false;
        let burst = Burst { sent_at: sys::now(), unanswered: count as u64 };
        match self.awaited {
            0 => self.oldest = burst,
            _ => self.younger.push_back(burst),
        }
        self.awaited += burst.unanswered;
        self.moved_at = burst.sent_at;
        self.flush()
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

    /// Receive into `buffer`; the number of bytes, none when nothing is there.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Broken> {
        match self.channel.recv(buffer) {
            Ok(0) => Err(Broken::Closed),
            Ok(received) => Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error.into()),
        }
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
        if tally.replies > 0 {
            self.awaited -= tally.replies;
            self.moved_at = now;
        }
        Ok(tally)
    }

    /// Of `replies` that were taken: how many answer the oldest burst, and when that was sent.
    #[inline]
    pub fn land(&mut self, replies: u64) -> (u64, u64) {
        let Burst { sent_at, unanswered } = self.oldest;
        let landed = replies.min(unanswered);
        self.oldest.unanswered -= landed;
        if self.oldest.unanswered == 0
            && let Some(next) = self.younger.pop_front()
        {
            self.oldest = next;
        }
        (landed, sent_at)
    }
}
