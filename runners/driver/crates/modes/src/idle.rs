//! Connections that are open and silent: what they cost the server, and whether they stay.

use std::io;

use crate::openings::{Connections, Openings, ServerMemory};
use crate::parallel::PATROL_NS;
use engine::connection::Connection;
use engine::job::Job;
use engine::meter::Meter;
use engine::node::Node;
use engine::outcome::Outcome;
use engine::record::Record;
use engine::resources;
use engine::server_process::read_server_memory;
use engine::stage::{Span, Stage};
use machine::clock;
use machine::epoll::Epoll;
use network::channel::Channel;
use network::opening::Moments;
use network::target::remedy_of;
use protocol::replies::{Proto, Replies};
use text::failure::{Failure, machine_failure};
use text::units::{per, round};

/// Connections that somebody looks after.
pub struct Held {
    epoll: Epoll,
    channels: Vec<Option<Channel>>,
}

impl Held {
    /// Open `clients` connections, one after the other; `opened` is told how long each took.
    pub fn open(nodes: &[Node], clients: usize, opened: &mut dyn FnMut(Moments)) -> Result<Held, Failure> {
        resources::require_files(clients, 1)?;
        let epoll = Epoll::new(64).map_err(machine_failure)?;
        let mut channels = Vec::with_capacity(clients);
        for index in 0..clients {
            let (dial, _) = nodes[index % nodes.len()].target.reach()?;
            let (channel, moments) = dial.into_channel();
            epoll.add(channel.socket(), index).map_err(machine_failure)?;
            channels.push(Some(channel));
            opened(moments);
        }
        Ok(Held { epoll, channels })
    }

    /// Watch for at most `ns`; `lost` is told why a connection is no longer held.
    pub fn watch(
        &mut self,
        ns: u64,
        lost: &mut dyn FnMut(Failure) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for event in 0..self.epoll.wait_ns(ns).map_err(machine_failure)? {
            let index = self.epoll.ready(event).token;
            let Some(channel) = &mut self.channels[index] else { continue };
            if let Err(failure) = check(channel, index) {
                self.channels[index] = None;
                lost(failure)?;
            }
        }
        Ok(())
    }
}

/// A server may push; what it says is not looked at.
fn check(channel: &mut Channel, index: usize) -> Result<(), Failure> {
    let closed =
        |cause: String| Failure::run(cause, "look at the server's log, its timeout and its limit of clients");
    let mut said = [0; 4096];
    match channel.recv(&mut said) {
        Ok(received @ 1..) if matches!(said[0], b'-' | b'E') => {
            let text = String::from_utf8_lossy(&said[..received]);
            let cause = format!("the server said to idle connection {index}: {}", text.trim());
            Err(Failure::run(cause, remedy_of(&text, "look at the server's log")))
        }
        Ok(0) => Err(closed(format!("the server closed idle connection {index}"))),
        Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Err(closed(format!("idle connection {index} broke ({error})")))
        }
        _ => Ok(()),
    }
}

/// Open all connections of `job`, leave them alone for the window of `stage`, and then ask each for one reply.
///
/// The latencies are of these replies, which are asked for at once; no request is sent in the window.
pub fn run<P: Proto>(proto: &P, job: &Job, stage: Stage) -> Result<(Outcome, Connections), Failure> {
    let mut openings = Openings::default();
    let before = resident(job)?;
    let held = Held::open(&job.nodes, job.clients, &mut |moments| openings.opened(moments))?;
    let span = stage.span(clock::now());
    let (held, mut record) = hold(held, job, &span, &mut openings)?;
    // A server may take connections long after the kernel did so for it.
    let open = resident(job)?;
    Roll::call(proto, job, held, &mut openings)?;
    record.latency.merge(&openings.first_reply);
    let memory = before.zip(open).map(|(before_bytes, open_bytes)| ServerMemory {
        before_bytes,
        open_bytes,
        bytes_per_connection: round(
            per(open_bytes.saturating_sub(before_bytes) as f64, job.clients as f64),
            1,
        ),
    });
    Ok((Outcome { span, records: vec![record], probe: None }, openings.report(job, memory)))
}

/// The resident bytes of the server, if it is known.
fn resident(job: &Job) -> Result<Option<u64>, Failure> {
    job.server_pid.map(read_server_memory).transpose()
}

fn hold(mut held: Held, job: &Job, span: &Span, openings: &mut Openings) -> Result<(Held, Record), Failure> {
    let mut meter = Meter::new(*span, job.slice_ns, job.server_pid);
    let mut now = clock::now();
    while now < span.ends_at {
        meter.reach(now)?;
        held.watch(meter.edge().saturating_sub(now), &mut |failure| openings.lose(job, failure))?;
        now = clock::now();
    }
    Ok((held, meter.finish(now)?))
}

/// Every connection that is still held is asked for one reply.
struct Roll<'a, R> {
    job: &'a Job,
    epoll: Epoll,
    connections: Vec<Option<Connection<R>>>,
    missing: usize,
}

impl<R: Replies> Roll<'_, R> {
    fn call<P: Proto<Replies = R>>(
        proto: &P,
        job: &Job,
        held: Held,
        openings: &mut Openings,
    ) -> Result<(), Failure> {
        let Held { epoll, channels } = held;
        let connection = |(index, channel): (usize, Option<Channel>)| {
            let mut connection =
                Connection::new(channel?, job.batch(index), proto.replies(&job.script, index));
            connection.quota = job.script.unit() as u64;
            Some(connection)
        };
        let connections: Vec<_> = channels.into_iter().enumerate().map(connection).collect();
        let missing = connections.iter().flatten().count();
        let mut roll = Roll { job, epoll, connections, missing };
        for index in 0..roll.connections.len() {
            let sent = roll.connections[index].as_mut().map_or(Ok(()), |it| it.send_batch(job.script.unit()));
            if let Err(broken) = sent {
                roll.strike(index, job.broken::<P>(index, broken), openings)?;
            }
        }
        let mut patrol_at = clock::now() + PATROL_NS;
        while roll.missing > 0 {
            let now = clock::now();
            if now >= patrol_at {
                patrol_at = now + PATROL_NS;
                roll.patrol(now, openings)?;
            }
            for event in 0..roll.epoll.wait_ns(patrol_at.saturating_sub(now)).map_err(machine_failure)? {
                let index = roll.epoll.ready(event).token;
                if let Err(failure) = roll.hear::<P>(index, openings) {
                    roll.strike(index, failure, openings)?;
                }
            }
        }
        Ok(())
    }

    fn hear<P: Proto>(&mut self, index: usize, openings: &mut Openings) -> Result<(), Failure> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        let broken = |broken| self.job.broken::<P>(index, broken);
        let mut buffer = [0; 4096];
        let Some(received) = connection.receive(&mut buffer).map_err(broken)? else { return Ok(()) };
        let now = clock::now();
        let tally = connection.take_replies(now, &buffer[..received]).map_err(broken)?;
        self.job.accept(&tally, P::ERROR_MARK)?;
        if tally.replies > 0 {
            let (landed, begin) = connection.land(tally.replies);
            openings.first_reply.record(now - begin.sent_at, landed);
            self.missing -= usize::from(connection.is_idle());
        }
        Ok(())
    }

    fn strike(&mut self, index: usize, failure: Failure, openings: &mut Openings) -> Result<(), Failure> {
        let was_missing = self.connections[index].take().is_some_and(|connection| !connection.is_idle());
        self.missing -= usize::from(was_missing);
        openings.lose(self.job, failure)
    }

    fn patrol(&mut self, now: u64, openings: &mut Openings) -> Result<(), Failure> {
        for index in 0..self.connections.len() {
            let connection = self.connections[index].as_mut();
            if connection.is_some_and(|connection| connection.is_still(now, self.job.timeout_ns())) {
                self.strike(index, self.job.silent(index), openings)?;
            }
        }
        Ok(())
    }
}
