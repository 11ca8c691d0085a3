//! Connections that are open and silent: what they cost the server, and whether they stay.

use std::io;

use crate::openings::{Connections, OpeningStats, ServerMemory};
use crate::parallel::CHECK_EVERY_NS;
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
use network::opening::OpeningTimes;
use network::target::remedy_of;
use protocol::replies::{Protocol, Replies};
use text::failure::{Failure, machine_failure};
use text::units::{per, round};

/// Idle connections that are watched for losses.
pub struct IdleConnections {
    epoll: Epoll,
    channels: Vec<Option<Channel>>,
}

impl IdleConnections {
    /// Open `clients` connections, one after the other; `opened` receives the times of each.
    pub fn open(
        nodes: &[Node],
        clients: usize,
        opened: &mut dyn FnMut(OpeningTimes),
    ) -> Result<IdleConnections, Failure> {
        resources::require_files(clients, 1)?;
        let epoll = Epoll::new(64).map_err(machine_failure)?;
        let mut channels = Vec::with_capacity(clients);
        for index in 0..clients {
            let (opening, _) = nodes[index % nodes.len()].target.open_connection()?;
            let (channel, times) = opening.into_channel();
            epoll.add(channel.socket(), index).map_err(machine_failure)?;
            channels.push(Some(channel));
            opened(times);
        }
        Ok(IdleConnections { epoll, channels })
    }

    /// Watch for at most `ns`; `lost` receives why a connection was lost.
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

/// Whether the connection is still usable. Messages that the server pushes are ignored.
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
pub fn run<P: Protocol>(proto: &P, job: &Job, stage: Stage) -> Result<(Outcome, Connections), Failure> {
    let mut openings = OpeningStats::default();
    let before = resident(job)?;
    let held = IdleConnections::open(&job.nodes, job.clients, &mut |times| openings.opened(times))?;
    let span = stage.span(clock::now());
    let (held, mut record) = hold(held, job, &span, &mut openings)?;
    // A server may accept a connection long after the kernel has.
    let open = resident(job)?;
    FirstReplies::call(proto, job, held, &mut openings)?;
    record.latency.merge(&openings.first_reply);
    let memory = before.zip(open).map(|(before_bytes, open_bytes)| ServerMemory {
        before_bytes,
        open_bytes,
        bytes_per_connection: round(
            per(open_bytes.saturating_sub(before_bytes) as f64, job.clients as f64),
            1,
        ),
    });
    Ok((Outcome { span, records: vec![record], probe: None, cut: None }, openings.report(job, memory)))
}

/// The resident bytes of the server, if it is known.
fn resident(job: &Job) -> Result<Option<u64>, Failure> {
    job.server_pid.map(read_server_memory).transpose()
}

fn hold(
    mut held: IdleConnections,
    job: &Job,
    span: &Span,
    openings: &mut OpeningStats,
) -> Result<(IdleConnections, Record), Failure> {
    let mut meter = Meter::new(*span, job.slice_ns, job.server_pid);
    let mut now = clock::now();
    while now < span.ends_at {
        resources::check_signals()?;
        meter.advance(now)?;
        held.watch(meter.edge().saturating_sub(now), &mut |failure| openings.count_loss(job, failure))?;
        now = clock::now();
    }
    Ok((held, meter.finish(now)?))
}

/// Every connection that is still held is asked for one reply.
struct FirstReplies<'a, R> {
    job: &'a Job,
    epoll: Epoll,
    connections: Vec<Option<Connection<R>>>,
    missing: usize,
}

impl<R: Replies> FirstReplies<'_, R> {
    fn call<P: Protocol<Replies = R>>(
        proto: &P,
        job: &Job,
        held: IdleConnections,
        openings: &mut OpeningStats,
    ) -> Result<(), Failure> {
        let IdleConnections { epoll, channels } = held;
        let connection = |(index, channel): (usize, Option<Channel>)| {
            let mut connection =
                Connection::new(channel?, job.batch(index), proto.replies(&job.script, index));
            connection.quota = job.script.unit() as u64;
            Some(connection)
        };
        let connections: Vec<_> = channels.into_iter().enumerate().map(connection).collect();
        let missing = connections.iter().flatten().count();
        let mut roll = FirstReplies { job, epoll, connections, missing };
        for index in 0..roll.connections.len() {
            let sent = roll.connections[index].as_mut().map_or(Ok(()), |it| it.send_batch(job.script.unit()));
            if let Err(broken) = sent {
                roll.strike(index, job.connection_failure::<P>(index, broken), openings)?;
            }
        }
        let mut check_at = clock::now() + CHECK_EVERY_NS;
        while roll.missing > 0 {
            let now = clock::now();
            if now >= check_at {
                check_at = now + CHECK_EVERY_NS;
                resources::check_signals()?;
                roll.check_progress(now, openings)?;
            }
            for event in 0..roll.epoll.wait_ns(check_at.saturating_sub(now)).map_err(machine_failure)? {
                let index = roll.epoll.ready(event).token;
                if let Err(failure) = roll.hear::<P>(index, openings) {
                    roll.strike(index, failure, openings)?;
                }
            }
        }
        Ok(())
    }

    fn hear<P: Protocol>(&mut self, index: usize, openings: &mut OpeningStats) -> Result<(), Failure> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        let broken = |broken| self.job.connection_failure::<P>(index, broken);
        let mut buffer = [0; 4096];
        let Some(received) = connection.receive(&mut buffer).map_err(broken)? else { return Ok(()) };
        let now = clock::now();
        let tally = connection.take_replies(now, &buffer[..received]).map_err(broken)?;
        self.job.check_errors(&tally, P::ERROR_MARK)?;
        if tally.replies > 0 {
            let (answered, begin) = connection.answer_oldest(tally.replies);
            openings.first_reply.record(now - begin.sent_at, answered);
            self.missing -= usize::from(connection.is_idle());
        }
        Ok(())
    }

    fn strike(&mut self, index: usize, failure: Failure, openings: &mut OpeningStats) -> Result<(), Failure> {
        let was_missing = self.connections[index].take().is_some_and(|connection| !connection.is_idle());
        self.missing -= usize::from(was_missing);
        openings.count_loss(self.job, failure)
    }

    fn check_progress(&mut self, now: u64, openings: &mut OpeningStats) -> Result<(), Failure> {
        for index in 0..self.connections.len() {
            let connection = self.connections[index].as_mut();
            if connection.is_some_and(|connection| connection.is_silent(now, self.job.timeout_ns())) {
                self.strike(index, self.job.silence_failure(index), openings)?;
            }
        }
        Ok(())
    }
}
