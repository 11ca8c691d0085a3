//! System calls on sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{c_int, c_void};

use crate::clock::check;
use text::units::NS_PER_MS;

/// Send what the socket takes now; `WouldBlock` when it takes nothing.
#[inline]
pub fn send(socket: BorrowedFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are of one slice.
    let sent = unsafe {
        libc::send(socket.as_raw_fd(), bytes.as_ptr().cast::<c_void>(), bytes.len(), libc::MSG_NOSIGNAL)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receive what is there; 0 when the peer has closed.
#[inline]
pub fn recv(socket: BorrowedFd, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are of one slice.
    let received =
        unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast::<c_void>(), bytes.len(), 0) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

pub fn set_nonblocking(socket: BorrowedFd) -> io::Result<()> {
    // SAFETY: plain calls on an open descriptor.
    unsafe {
        let flags = check(libc::fcntl(socket.as_raw_fd(), libc::F_GETFL))?;
        check(libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK))?;
    }
    Ok(())
}

/// The bytes of `socket` that were sent and that its peer has not yet taken.
pub fn held_bytes(socket: BorrowedFd) -> io::Result<usize> {
    let mut held: libc::c_int = 0;
    // SAFETY: the kernel writes one int, which outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut held) })?;
    Ok(held as usize)
}

/// Let `socket` be bound to an address without a port: the kernel chooses that when it connects, so that one port serves
/// connections to different peers, and from different addresses.
pub fn bind_address_only(socket: &impl AsRawFd) -> io::Result<()> {
    let yes: c_int = 1;
    // SAFETY: pointer and size are of one integer, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const yes).cast::<c_void>(),
            size_of::<c_int>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// How many ports of an address the kernel deals out to connections; none when it does not say.
pub fn local_ports() -> Option<usize> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = range.split_whitespace().map(|end| end.parse::<usize>().ok());
    let (first, last) = (ends.next()??, ends.next()??);
    Some((last + 1).saturating_sub(first))
}

/// Which events of a socket a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    Replies,
    RepliesAndRoom,
}

impl Interest {
    pub fn mask(self) -> u32 {
        match self {
            Interest::Replies => libc::EPOLLIN as u32,
            Interest::RepliesAndRoom => (libc::EPOLLIN | libc::EPOLLOUT) as u32,
        }
    }
}

/// Wait for at most `limit` until a socket is ready; false when it is not.
pub fn await_ready(socket: BorrowedFd, interest: Interest, limit: Duration) -> io::Result<bool> {
    // The bits of poll and of epoll are the same.
    let mut waited =
        libc::pollfd { fd: socket.as_raw_fd(), events: interest.mask() as libc::c_short, revents: 0 };
    let limit_ms = limit.as_nanos().div_ceil(u128::from(NS_PER_MS)) as c_int;
    // SAFETY: `waited` outlives the call, and is one.
    match check(unsafe { libc::poll(&mut waited, 1, limit_ms) }) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}
