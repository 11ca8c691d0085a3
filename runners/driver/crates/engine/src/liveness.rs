//! Whether bytes still move on a connection, in either direction: this is what `--timeout` limits.

use std::os::fd::BorrowedFd;

use machine::socket;

/// The kernel is asked for unread bytes only after this part of the timeout.
const LOOKED_AT_AFTER: u64 = 4;

#[derive(Debug, Clone, Copy, Default)]
pub struct Liveness {
    /// When bytes last moved, ns on the monotonic clock.
    moved_at: u64,
    /// The bytes that the peer had not yet read when the kernel was last asked in this silence.
    held: Option<usize>,
}

impl Liveness {
    /// Bytes moved at `now`.
    #[inline]
    pub fn moved(&mut self, now: u64) {
        *self = Liveness { moved_at: now, held: None };
    }

    /// Whether no byte has moved on `socket` for longer than `timeout_ns`. To be asked now and then while something is
    /// awaited: a peer that reads slowly shows only in the bytes that the kernel still holds.
    pub fn is_silent(&mut self, socket: BorrowedFd, now: u64, timeout_ns: u64) -> bool {
        let silence = now.saturating_sub(self.moved_at);
        if silence <= timeout_ns / LOOKED_AT_AFTER {
            return false;
        }
        let held = socket::held_bytes(socket).unwrap_or(0);
        match self.held.replace(held) {
            None => false,
            Some(before) if before != held => {
                self.moved_at = now;
                false
            }
            Some(_) => silence > timeout_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_peer_that_takes_bytes_is_not_still() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let mut liveness = Liveness::default();
        liveness.moved(1000);
        for _ in 0..3 {
            ours.write_all(&[0; 4096]).unwrap();
        }
        let mut is_silent = |now| liveness.is_silent(ours.as_fd(), now, 100);
        assert!(!is_silent(1020) && !is_silent(1090));
        theirs.read_exact(&mut [0; 8192]).unwrap();
        assert!(!is_silent(1110), "bytes have moved");
        assert!(!is_silent(1200));
        assert!(is_silent(1220));
    }
}
