//! Recorded traffic sent again: at its own pace, so many times as fast, or as fast as the server answers.
//!
//! One thread reads the recording and gives each request its connection and its time; the threads of the load send. A client
//! of the recording keeps its connection, so the order of its requests is kept; between clients it is that of the times.

pub mod answers;
pub mod block;
pub mod link;
pub mod player;
pub mod reader;
pub mod report;
pub mod setting;

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use engine::job::{Job, NamedCommand};
use engine::outcome::{Cut, Outcome};
use engine::resources;
use engine::schedule::{ArrivalProcess, Arrivals};
use engine::stage::Span;
use machine::clock;
use protocol::replies::Protocol;
use recording::format::Wire;
use recording::recording::{Recording, Source};
use recording::timing::Timing;
use text::failure::Failure;
use text::units::{per, round};

use answers::{AnyMemcached, AnyResp};
use block::Block;
use player::{Inlet, Played, Player};
use reader::{Limits, Outlet, Reader, Reading};
pub use report::Replayed;
pub use setting::{Fast, Setting, Speed};

/// Blocks on their way to a thread.
const BLOCKS_AHEAD: usize = 4;
/// The delay between the opening of the connections and the begin: by then the first blocks have been read.
const LEAD_NS: u64 = 5_000_000;

/// The result of a replay.
pub struct Replay {
    pub outcome: Outcome,
    pub commands: Vec<NamedCommand>,
    pub replayed: Replayed,
}

/// Replay the recording of `setting` over the connections of `job` in the protocol `wire`, until a limit is reached.
pub fn run(job: &Job, setting: &Setting, wire: Wire, limits: Limits) -> Result<Replay, Failure> {
    let source = Source {
        path: setting.path.clone(),
        name: setting.file.clone(),
        format: setting.format,
        wire,
        seed: job.seed,
    };
    match wire {
        Wire::Resp => play(&AnyResp, job, setting, &source, limits),
        Wire::Memcached => play(&AnyMemcached, job, setting, &source, limits),
    }
}

fn play<P: Protocol>(
    proto: &P,
    job: &Job,
    setting: &Setting,
    source: &Source,
    limits: Limits,
) -> Result<Replay, Failure> {
    resources::require_files(job.clients, 1)?;
    let recording = Recording::open(source)?;
    let (format, is_paced) = (recording.format, setting.speed.times().is_some());
    let timing = timing(&recording, setting, source)?;
    let (mut outlets, mut players) = (Vec::new(), Vec::new());
    for thread in 0..job.threads {
        let (blocks, taken) = sync_channel(BLOCKS_AHEAD);
        let (given, spare) = channel();
        outlets.push(Outlet { blocks, spare, block: Block::default() });
        let inlet = Inlet { blocks: taken, spare: given };
        players.push(Player::connect(proto, job, thread, inlet, is_paced)?);
    }
    let span = span(&limits, is_paced);
    let reader = Reader::new(recording, timing, setting.speed, limits, job.clients, outlets);
    let (reading, played) = on_threads(reader, players, &span);
    let mut outcome = outcome(span, &reading, played.0);
    if let Some(arrivals) = &mut outcome.span.arrivals {
        let seconds = reading.recorded_ns as f64 / 1e9 / setting.speed.times().unwrap_or(1.0);
        arrivals.rate = round(per(reading.handed as f64, seconds), 1);
    }
    match &outcome.cut {
        Some(cut) if !outcome.is_counted() => Err(cut.failure.clone()),
        _ => {
            let commands =
                reading.commands.iter().map(|name| NamedCommand { name: name.clone(), reads: false });
            let replayed = Replayed::of(format, setting, &reading, played.1);
            Ok(Replay { outcome, commands: commands.collect(), replayed })
        }
    }
}

/// When requests are due, if that is asked for; a usage failure when the recording does not tell.
fn timing(recording: &Recording, setting: &Setting, source: &Source) -> Result<Option<Timing>, Failure> {
    if setting.speed.times().is_none() {
        return Ok(None);
    }
    if !recording.has_times {
        return Err(Failure::usage(
            format!("the recording {} has no times, so it has no pace of its own", setting.file),
            "play it as fast as the server answers (--speed fast), or record an append-only file with aof-timestamp-enabled yes",
        ));
    }
    let scout = recording.has_seconds.then(|| Recording::open(source)).transpose()?;
    Timing::new(scout).map(Some)
}

/// All replies count, also those that come when nothing more is sent.
fn span(limits: &Limits, is_paced: bool) -> Span {
    let begins_at = clock::now() + LEAD_NS;
    Span {
        begins_at,
        counts_from: begins_at,
        closes_at: u64::MAX,
        ends_at: begins_at.saturating_add(limits.ns),
        requests: None,
        clients: None,
        arrivals: is_paced.then_some(Arrivals {
            rate: 0.0,
            process: ArrivalProcess::Recorded,
            series: 0,
            ramp: None,
        }),
    }
}

/// What was read, and what the threads did: in order, and how many requests they sent and did not send.
type Done = (Reading, (Vec<Played>, (u64, u64)));

fn on_threads<P: Protocol>(reader: Reader, players: Vec<Player<P>>, span: &Span) -> Done {
    let stopped = &AtomicBool::new(false);
    thread::scope(|scope| {
        let reading = scope.spawn(move || reader.run(stopped));
        let threads: Vec<_> =
            players.into_iter().map(|player| scope.spawn(move || player.run(span, stopped))).collect();
        let played: Vec<Played> =
            threads.into_iter().map(|thread| thread.join().expect("a thread does not panic")).collect();
        let sent = played.iter().map(|played| played.sent).sum();
        let unsent = played.iter().map(|played| played.unsent).sum();
        (reading.join().expect("a thread does not panic"), (played, (sent, unsent)))
    })
}

fn outcome(span: Span, reading: &Reading, played: Vec<Played>) -> Outcome {
    let mut records: Vec<_> = played.into_iter().map(|played| played.record).collect();
    // Each thread knows the commands that it saw.
    records
        .iter_mut()
        .for_each(|record| record.commands.resize_with(reading.commands.len(), Default::default));
    let cuts = records.iter_mut().filter_map(|record| record.cut.take());
    let broken = reading.broken.clone().map(|failure| Cut { at: clock::now(), failure });
    let cut = cuts.chain(broken).min_by_key(|cut| cut.at);
    Outcome { span, records, probe: None, cut }
}
