//! What each server used while both were measured; at rest it uses nothing.

use crate::contest::unreadable;
use crate::sides::{Side, Sides};
use engine::record::Record;
use machine::counters::Counters;
use machine::perf::PerfReading;
use machine::process::ProcessUsage;
use session::session::Session;
use text::failure::Failure;

/// The counters of both servers at one moment, or why they cannot be read; none without their pids.
pub struct ServerUse(Sides<Result<Option<Reading>, Failure>>);

struct Reading {
    usage: ProcessUsage,
    events: Option<Vec<PerfReading>>,
}

impl ServerUse {
    pub fn read(sessions: &Sides<Session>) -> ServerUse {
        ServerUse(Sides::each(|side| reading(side, sessions.of(side))))
    }

    /// Put what the server of `side` has used since `self` was read, and until `later`, into its record.
    pub fn add(
        &self,
        later: &ServerUse,
        (side, session): (Side, &Session),
        record: &mut Record,
    ) -> Result<(), Failure> {
        let [before, after] = [self, later].map(|read| read.0.of(side).as_ref().map_err(Failure::clone));
        if let (Some(before), Some(after)) = (before?, after?) {
            record.server_usage = Some(after.usage.since(before.usage));
            let events = before.events.as_ref().zip(after.events.as_ref());
            record.counted = counters(session)
                .zip(events)
                .and_then(|(counters, (before, after))| counters.between(before, after));
        }
        Ok(())
    }
}

fn reading(side: Side, session: &Session) -> Result<Option<Reading>, Failure> {
    let Some(pid) = session.plan.server_pid else { return Ok(None) };
    let events = counters(session).map(Counters::read).transpose().map_err(|error| {
        Failure::run(
            format!("cannot read the counters of process {pid} ({error})"),
            "leave out --server-events",
        )
    })?;
    let usage = ProcessUsage::of(pid).map_err(|error| unreadable(side, pid, "counters", &error))?;
    Ok(Some(Reading { usage, events }))
}

fn counters<'a>(session: &'a Session) -> Option<&'a Counters> {
    session.counters.as_deref()?.as_ref().ok()
}
