//! The loop. Each thread has its own epoll set, connections, streams and counters, and shares nothing that is written.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::connection::{Broken, Connection};
use crate::crew::Job;
use crate::failure::Failure;
use crate::meter::{Meter, Record};
use crate::proto::{Proto, Tally};
use crate::stage::Span;
use crate::sys::{self, Epoll, Interest};

/// Replies are received into this much; what does not fit is received by the next call.
const BUFFER_BYTES: usize = 64 * 1024;
/// Silent servers and failed neighbours are looked for this often.
const PATROL_NS: u64 = 100_000_000;
const NS_PER_MS: u64 = 1_000_000;

pub struct Worker<'a, P: Proto> {
    job: &'a Job,
    failed: &'a AtomicBool,
    epoll: Epoll,
    /// With the number of each among all connections of the job.
    connections: Vec<(usize, Connection<P::Replies>)>,
    buffer: Vec<u8>,
    /// Connections that wait for replies.
    busy: usize,
}

impl<'a, P: Proto> Worker<'a, P> {
    /// Connect the connections that fall to thread number `thread`. `failed` says that another thread gave up.
    pub fn connect(proto: &P, job: &'a Job, thread: usize, failed: &'a AtomicBool) -> Result<Self, Failure> {
        let mine = (thread..job.clients).step_by(job.threads);
        let epoll = Epoll::new(mine.len()).map_err(machine_failure)?;
        let mut connections = Vec::with_capacity(mine.len());
        for (token, index) in mine.enumerate() {
            let connection = job.connect(proto, index)?;
            sys::set_nonblocking(connection.socket()).map_err(machine_failure)?;
            epoll.add(connection.socket(), token).map_err(machine_failure)?;
            connections.push((index, connection));
        }
        Ok(Worker { job, failed, epoll, connections, buffer: vec![0; BUFFER_BYTES], busy: 0 })
    }

    /// Drive the connections through `span` until nothing is in flight.
    pub fn run(&mut self, span: &Span) -> Result<Record, Failure> {
        let mut meter = Meter::new(*span, self.job.slice_ns, self.job.server_pid);
        let mut now = sys::now();
        meter.reach(now)?;
        self.begin(span, now)?;
        let mut patrol_at = now + PATROL_NS;
        while self.busy > 0 {
            let ready = self.wait(meter.edge().min(patrol_at).saturating_sub(now))?;
            now = sys::now();
            for event in 0..ready {
                self.serve(event, span, &mut meter)?;
            }
            meter.reach(now)?;
            if now >= patrol_at {
                patrol_at = now + PATROL_NS;
                self.patrol(now)?;
            }
        }
        meter.finish(sys::now())
    }

    fn begin(&mut self, span: &Span, now: u64) -> Result<(), Failure> {
        for token in 0..self.connections.len() {
            let (index, connection) = &mut self.connections[token];
            connection.quota = span.quota(*index, self.job.clients);
            self.busy += 1;
            self.send_next(token, span, now)?;
        }
        Ok(())
    }

    fn wait(&mut self, ns: u64) -> Result<usize, Failure> {
        let ms = ns.div_ceil(NS_PER_MS) as libc::c_int;
        self.epoll.wait(ms).map_err(machine_failure)
    }

    #[inline]
    fn serve(&mut self, event: usize, span: &Span, meter: &mut Meter) -> Result<(), Failure> {
        let ready = self.epoll.ready(event);
        if ready.room {
            self.flush(ready.token)?;
        }
        self.receive(ready.token, span, meter)
    }

    /// Take the replies that are there; send the next batch when they complete the one in flight.
    #[inline]
    fn receive(&mut self, token: usize, span: &Span, meter: &mut Meter) -> Result<(), Failure> {
        loop {
            let (_, connection) = &mut self.connections[token];
            let received = match connection.receive(&mut self.buffer) {
                Ok(Some(received)) => received,
                Ok(None) => return Ok(()),
                Err(broken) => return Err(self.explain(token, broken)),
            };
            let now = sys::now();
            let tally = match connection.take_replies(now, &self.buffer[..received]) {
                Ok(tally) => tally,
                Err(broken) => return Err(self.explain(token, broken)),
            };
            if tally.replies > 0 {
                let (sent_at, done) = (connection.sent_at, connection.is_idle());
                self.job.accept(&tally)?;
                meter.count(now, sent_at, tally)?;
                if done {
                    self.send_next(token, span, now)?;
                }
            }
            if received < self.buffer.len() {
                return Ok(());
            }
        }
    }

    /// Send what the span still allows, or let the connection rest.
    #[inline]
    fn send_next(&mut self, token: usize, span: &Span, now: u64) -> Result<(), Failure> {
        let (_, connection) = &mut self.connections[token];
        let count = span.allowance(now, connection.quota, self.job.pipeline);
        if count == 0 {
            self.busy -= 1;
            return Ok(());
        }
        match connection.send_batch(count) {
            Ok(()) if connection.has_unsent() => self.await_room(token, Interest::RepliesAndRoom),
            Ok(()) => Ok(()),
            Err(broken) => Err(self.explain(token, broken)),
        }
    }

    fn flush(&mut self, token: usize) -> Result<(), Failure> {
        let (_, connection) = &mut self.connections[token];
        match connection.flush() {
            Ok(()) if connection.has_unsent() => Ok(()),
            Ok(()) => self.await_room(token, Interest::Replies),
            Err(broken) => Err(self.explain(token, broken)),
        }
    }

    fn await_room(&self, token: usize, interest: Interest) -> Result<(), Failure> {
        let socket = self.connections[token].1.socket();
        self.epoll.change(socket, token, interest).map_err(machine_failure)
    }

    /// Give up when a server is silent or when another thread has given up.
    fn patrol(&self, now: u64) -> Result<(), Failure> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(Failure::run("stopped because another thread failed", "see its message"));
        }
        let silent = |(_, connection): &(usize, Connection<P::Replies>)| {
            !connection.is_idle() && now.saturating_sub(connection.moved_at) > self.job.timeout_ns()
        };
        match self.connections.iter().find(|connection| silent(connection)) {
            None => Ok(()),
            Some((index, _)) => Err(Failure::run(
                format!(
                    "the server stopped answering {} on connection {index} for {:?}",
                    self.job.test.name(),
                    self.job.target.timeout
                ),
                "look at the server's log, or raise --timeout",
            )),
        }
    }

    #[cold]
    fn explain(&self, token: usize, broken: Broken) -> Failure {
        let (index, _) = &self.connections[token];
        let test = self.job.test.name();
        match broken {
            Broken::Closed => Failure::run(
                format!("the server closed connection {index} during {test}"),
                "look at the server's log and its limit of clients",
            ),
            Broken::Garbage(garbage) => Failure::run(
                format!("wrong answer to {test} on connection {index}, {}", garbage.0),
                format!("check that {} speaks RESP2", self.job.target.address),
            ),
            Broken::Io(error) => machine_failure(error),
        }
    }
}

impl Job {
    /// Refuse error replies, unless they were allowed.
    #[inline]
    fn accept(&self, tally: &Tally) -> Result<(), Failure> {
        match &tally.first_error {
            Some(text) if !self.allow_errors => Err(Failure::run(
                format!("the server answered {} with an error, -{text}", self.test.name()),
                "correct the server, or count errors with --allow-errors",
            )),
            _ => Ok(()),
        }
    }
}

fn machine_failure(error: io::Error) -> Failure {
    Failure::run(format!("a system call failed ({error})"), "check limits of files and memory (ulimit -a)")
}
