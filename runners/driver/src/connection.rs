//! One connection: its requests, its replies, and what it still waits for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::batch::Batch;
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
        Broken::Io(error)
    }
}

pub struct Connection<R> {
    socket: OwnedFd,
    batch: Batch,
    replies: R,
    /// Replies to come for the batch in flight.
    awaited: u64,
    /// Bytes of the batch: `sent` of `length` are with the kernel.
    sent: usize,
    length: usize,
    /// Requests that may still be sent in this span.
    pub quota: u64,
    /// When the batch in flight was sent.
    pub sent_at: u64,
    /// When the connection last sent a batch or completed a reply.
    pub moved_at: u64,
}

impl<R: Replies> Connection<R> {
    pub fn new(socket: OwnedFd, batch: Batch, replies: R) -> Connection<R> {
        Connection {
            socket,
            batch,
            replies,
            awaited: 0,
            sent: 0,
            length: 0,
            quota: 0,
            sent_at: 0,
            moved_at: 0,
        }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        self.awaited == 0
    }

    /// Whether the kernel has not yet taken all bytes of the batch.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.sent < self.length
    }

    /// Begin the next `count` requests and send what the socket takes.
    #[inline]
    pub fn send_batch(&mut self, count: usize) -> Result<(), Broken> {
        self.length = self.batch.prepare(count);
        self.sent = 0;
        self.awaited = count as u64;
        self.quota -= count as u64;
        self.sent_at = sys::now();
        self.moved_at = self.sent_at;
        self.flush()
    }

    /// Send more of the batch, as much as the socket takes.
    #[inline]
    pub fn flush(&mut self) -> Result<(), Broken> {
        while self.has_unsent() {
            match sys::send(self.socket.as_fd(), &self.batch.bytes()[self.sent..self.length]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(closed_or(error)),
            }
        }
        Ok(())
    }

    /// Receive into `buffer`; the number of bytes, none when nothing is there.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, Broken> {
        match sys::recv(self.socket.as_fd(), buffer) {
            Ok(0) => Err(Broken::Closed),
            Ok(received) => Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(closed_or(error)),
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
}

fn closed_or(error: io::Error) -> Broken {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Broken::Closed,
        _ => Broken::Io(error),
    }
}
