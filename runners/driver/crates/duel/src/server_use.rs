//! What each server used while both were measured; at rest it uses nothing.

use crate::sides::{Side, Sides};
use engine::record::Record;
use engine::server_process::read_server_usage;
use machine::counters::Counters;
use machine::perf::PerfReading;
use machine::process::ProcessUsage;
use session::session::Session;
use text::failure::Failure;

/// The counters of both servers at one moment; none without their pids.
pub struct ServerUse(Sides<Option<Reading>>);

struct Reading {
    usage: ProcessUsage,
    events: Option<Vec<PerfReading>>,
}

impl ServerUse {
    pub fn read(sessions: &Sides<Session>) -> Result<ServerUse, Failure> {
        Sides::try_each(|side| reading(sessions.of(side))).map(ServerUse)
    }

    /// Put what the server of `side` has used since `self` was read, and until `later`, into its record.
    pub fn add(&self, later: &ServerUse, (side, session): (Side, &Session), record: &mut Record) {
        if let (Some(before), Some(after)) = (self.0.of(side), later.0.of(side)) {
            record.server_usage = Some(after.usage.since(before.usage));
            let events = before.events.as_ref().zip(after.events.as_ref());
            record.counted = counters(session)
                .zip(events)
                .and_then(|(counters, (before, after))| counters.between(before, after));
        }
    }
}

fn reading(session: &Session) -> Result<Option<Reading>, Failure> {
    let Some(pid) = session.plan.server_pid else { return Ok(None) };
    let events = counters(session).map(Counters::read).transpose().map_err(|error| {
        Failure::run(
            format!("cannot read the counters of process {pid} ({error})"),
            "leave out --server-events",
        )
    })?;
    Ok(Some(Reading { usage: read_server_usage(pid)?, events }))
}

fn counters<'a>(session: &'a Session) -> Option<&'a Counters> {
    session.counters.as_deref()?.as_ref().ok()
}
