//! Publishers and subscribers: how long a message takes to each subscriber.
//!
//! A message carries the time at which it was sent and its number among those of its publisher on its channel, so every
//! subscriber knows what it missed. At the end each subscriber sends PING; its PONG comes after all messages that were
//! still under way, so no subscriber waits for a message that was lost.

pub mod channels;
pub mod counts;
pub mod publisher;
pub mod settings;
pub mod subscriber;
pub mod thread;

use serde::Serialize;

use crate::parallel::on_threads;
use channels::Channels;
use counts::Counts;
use engine::job::Job;
use engine::outcome::Outcome;
use engine::resources;
use engine::stage::Stage;
use engine::total::Total;
use machine::clock;
pub use settings::{Setting, Subscribe};
use text::failure::Failure;
use text::units::{per, round, seconds};
use thread::ThreadClients;

/// What became of the messages.
#[derive(Debug, Serialize)]
pub struct Fanout {
    pub publishers: usize,
    pub channels: usize,
    pub subscribe: Subscribe,
    pub asked_rps: Option<f64>,
    /// Sent in the window.
    pub published: u64,
    pub published_rps: f64,
    /// Expected deliveries that never came, and those that came twice; both include the warm-up.
    pub lost: u64,
    pub duplicates: u64,
}

/// Let `job.clients` subscribers receive what the publishers of `setting` send; a delivery counts as a request.
///
/// Messages have `value_bytes`, and at least those of a stamp.
pub fn run(
    job: &Job,
    setting: &Setting,
    value_bytes: usize,
    stage: Stage,
) -> Result<(Outcome, Fanout), Failure> {
    resources::require_files(job.clients + setting.publishers, 1)?;
    let channels = Channels::new(job, setting, value_bytes);
    let open = |thread| ThreadClients::open(&channels, thread);
    let mut threads: Vec<_> = (0..job.threads).map(open).collect::<Result<_, _>>()?;
    threads.iter_mut().try_for_each(ThreadClients::await_confirmations)?;
    let span = stage.span(clock::now());
    let mut sum = Counts::default();
    let mut records = Vec::new();
    for (record, counts) in on_threads(job, threads, |clients, failed| clients.run(&span, failed))? {
        records.push(record);
        sum.add(&counts);
    }
    let outcome = Outcome { span, records, probe: None, cut: None };
    let window_s = seconds(Total::of(&outcome).window_ns);
    let fanout = Fanout {
        publishers: setting.publishers,
        channels: setting.channels,
        subscribe: setting.subscribe,
        asked_rps: setting.rate,
        published: sum.published,
        published_rps: round(per(sum.published as f64, window_s), 1),
        lost: sum.expected.saturating_sub(sum.delivered),
        duplicates: sum.duplicates,
    };
    Ok((outcome, fanout))
}
