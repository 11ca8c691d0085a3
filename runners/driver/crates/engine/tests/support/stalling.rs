//! A server of one thread that answers PING at once, except that it stalls on a schedule; it logs what it did.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use machine::clock;
use machine::epoll::Epoll;

const PING: usize = b"*1\r\n$4\r\nPING\r\n".len();

/// Moments on CLOCK_MONOTONIC, ns.
#[derive(Default)]
pub struct Log {
    /// When each stall really began and ended.
    pub stalls: Vec<(u64, u64)>,
    /// When each request was answered, by connection in the order in which they came.
    pub answered: Vec<Vec<u64>>,
}

pub struct Stalling {
    pub path: PathBuf,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<Log>>,
}

impl Stalling {
    /// Stalls for `stall_ns` each `period_ns`, first one period after the first request.
    pub fn start(stall_ns: u64, period_ns: u64) -> Stalling {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("stalling-{}-{}.sock", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let server = thread::spawn(move || {
            let mut hall = Hall::new(listener);
            while !seen.load(Ordering::Relaxed) {
                hall.serve(stall_ns, period_ns);
            }
            hall.log
        });
        Stalling { path, stop, server: Some(server) }
    }

    /// End the server: what it has done.
    pub fn end(mut self) -> Log {
        self.stop.store(true, Ordering::Relaxed);
        self.server.take().unwrap().join().unwrap()
    }
}

impl Drop for Stalling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = std::fs::remove_file(&self.path);
    }
}

struct Hall {
    listener: UnixListener,
    epoll: Epoll,
    /// With the bytes of a request that is not whole.
    guests: Vec<Option<(UnixStream, usize)>>,
    stalls_at: u64,
    log: Log,
}

impl Hall {
    fn new(listener: UnixListener) -> Hall {
        let epoll = Epoll::new(64).unwrap();
        epoll.add(listener.as_fd(), usize::MAX).unwrap();
        Hall { listener, epoll, guests: Vec::new(), stalls_at: u64::MAX, log: Log::default() }
    }

    fn serve(&mut self, stall_ns: u64, period_ns: u64) {
        let ready = self.epoll.wait_ns(self.stalls_at.saturating_sub(clock::now()).min(20_000_000)).unwrap();
        for event in 0..ready {
            self.stall(stall_ns, period_ns);
            match self.epoll.ready(event).token {
                usize::MAX => self.accept(),
                guest => self.answer(guest, period_ns),
            }
        }
        self.stall(stall_ns, period_ns);
    }

    fn stall(&mut self, stall_ns: u64, period_ns: u64) {
        let begin = clock::now();
        if begin < self.stalls_at {
            return;
        }
        thread::sleep(Duration::from_nanos(stall_ns));
        let end = clock::now();
        self.log.stalls.push((begin, end));
        while self.stalls_at <= end {
            self.stalls_at += period_ns;
        }
    }

    fn accept(&mut self) {
        let (guest, _) = self.listener.accept().unwrap();
        guest.set_nonblocking(true).unwrap();
        self.epoll.add(guest.as_fd(), self.guests.len()).unwrap();
        self.guests.push(Some((guest, 0)));
        self.log.answered.push(Vec::new());
    }

    fn answer(&mut self, number: usize, period_ns: u64) {
        let Some((guest, pending)) = &mut self.guests[number] else { return };
        let mut bytes = [0; 1 << 16];
        let received = match guest.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            received => received.unwrap(),
        };
        if received == 0 {
            self.guests[number] = None;
            return;
        }
        *pending += received;
        let now = clock::now();
        if self.stalls_at == u64::MAX {
            self.stalls_at = now + period_ns;
        }
        let answers = *pending / PING;
        *pending %= PING;
        self.log.answered[number].extend(std::iter::repeat_n(now, answers));
        guest.write_all(&b"+PONG\r\n".repeat(answers)).unwrap();
    }
}
