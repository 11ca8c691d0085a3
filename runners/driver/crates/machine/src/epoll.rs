//! Waiting for many sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, epoll_event};

use crate::clock::check;
use crate::socket::Interest;
use text::units::NS_PER_MS;

/// One ready socket: its token, whether it takes more bytes, and whether it has broken or the peer sends no more.
#[derive(Clone, Copy)]
pub struct Ready {
    pub token: usize,
    pub room: bool,
    pub ended: bool,
}

/// An epoll set. A socket is registered once; the steady state never changes it.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<epoll_event>,
    /// Flags that all sockets are registered with.
    trigger: u32,
}

impl Epoll {
    /// A level-triggered set: a socket is ready as long as it has something to read.
    pub fn new(capacity: usize) -> io::Result<Epoll> {
        // SAFETY: the descriptor is new and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Epoll { fd, events: vec![epoll_event { events: 0, u64: 0 }; capacity.max(1)], trigger: 0 })
    }

    /// An edge-triggered set: an arrival is reported once, so a socket must be read until it is empty, and after the peer
    /// has closed until the read says so. The kernel then need not check every socket again in the next wait.
    pub fn edge_triggered(capacity: usize) -> io::Result<Epoll> {
        Ok(Epoll { trigger: (libc::EPOLLET | libc::EPOLLRDHUP) as u32, ..Epoll::new(capacity)? })
    }

    pub fn add(&self, socket: BorrowedFd, token: usize) -> io::Result<()> {
        self.add_for(socket, token, Interest::Replies)
    }

    pub fn add_for(&self, socket: BorrowedFd, token: usize, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, interest)
    }

    pub fn change(&self, socket: BorrowedFd, token: usize, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, token, interest)
    }

    fn control(
        &self,
        operation: c_int,
        socket: BorrowedFd,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        let mut event = epoll_event { events: interest.mask() | self.trigger, u64: token as u64 };
        // SAFETY: `event` outlives the call.
        let answer =
            unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, socket.as_raw_fd(), &mut event) };
        check(answer).map(drop)
    }

    /// Wait for at most `ns`, to the ns where the kernel can (Linux 5.11); the number of ready sockets as of `wait`.
    pub fn wait_ns(&mut self, ns: u64) -> io::Result<usize> {
        let time = libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the vector and `time` outlive the call; without a signal mask its size is ignored.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len(),
                &raw const time,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        match check(answer as c_int) {
            Ok(ready) => Ok(ready as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                self.wait(ns.div_ceil(NS_PER_MS) as c_int)
            }
            Err(error) => Err(error),
        }
    }

    /// Wait for at most `timeout_ms`; the number of ready sockets, 0 after a timeout or a signal.
    #[inline]
    pub fn wait(&mut self, timeout_ms: c_int) -> io::Result<usize> {
        // SAFETY: pointer and length are of one vector.
        let answer = unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as c_int,
                timeout_ms,
            )
        };
        match check(answer) {
            Ok(ready) => Ok(ready as usize),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Ready socket number `index` of the last wait.
    #[inline]
    pub fn ready(&self, index: usize) -> Ready {
        const ENDED: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        let event = self.events[index];
        Ready {
            token: event.u64 as usize,
            room: event.events & libc::EPOLLOUT as u32 != 0,
            ended: event.events & ENDED != 0,
        }
    }
}
