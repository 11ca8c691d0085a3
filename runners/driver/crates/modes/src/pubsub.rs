//! Publishers and subscribers: how long a message takes to each of those who listen.
//!
//! A message says when it was sent and as which of its publisher's on its channel, so every subscriber knows what it
//! missed. At the end each asks for a PONG, which comes after all messages that were on their way: nobody waits in vain.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::line::Line;
use crate::parallel::{PATROL_NS, on_threads, stopped};
use crate::stamp::{Stamp, blank};
use crate::timing::{due, schedule};
use engine::connection::Begin;
use engine::job::Job;
use engine::meter::Meter;
use engine::outcome::Outcome;
use engine::record::Record;
use engine::resources;
use engine::schedule::Schedule;
use engine::stage::{Span, Stage};
use engine::total::Total;
use machine::clock;
use machine::epoll::Epoll;
use network::target::Target;
use protocol::replies::Tally;
use protocol::resp;
use text::checks::require;
use text::failure::{Failure, machine_failure};
use text::units::{NS_PER_MS, per, round, seconds};

/// Channels are called so, and by their number.
const CHANNEL: &str = "speedbench:";

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    pub publishers: usize,
    pub channels: usize,
    /// Channels that one subscriber listens to, each at a name of its own.
    pub channels_each: usize,
    pub subscribe: Subscribe,
    /// Messages per second of all publishers; without it each sends again when it was answered.
    #[serde(skip)]
    pub rate: Option<f64>,
}

impl Default for Setting {
    fn default() -> Self {
        Setting { publishers: 1, channels: 1, channels_each: 1, subscribe: Subscribe::Channels, rate: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subscribe {
    Channels,
    /// One pattern that all channels match.
    Patterns,
    Shards,
}

impl Setting {
    /// Usage failures.
    pub fn check(&self, value_bytes: usize) -> Result<(), Failure> {
        let fits = |number: usize| (1..=1_000_000).contains(&number);
        require(
            fits(self.publishers) && fits(self.channels),
            "publishers or channels are outside of 1 to 1000000",
            "1 is usual",
        )?;
        require(
            (1..=self.channels).contains(&self.channels_each),
            "channels_each is not between 1 and channels",
            "lower it, or raise channels",
        )?;
        require(
            fits(self.channels * value_bytes.max(1) / 4096 + 1),
            "a message for each channel does not fit into 4 GiB",
            "lower channels or the bytes of a value",
        )
    }

    /// Channels that one subscriber hears.
    fn heard(&self) -> usize {
        match self.subscribe {
            Subscribe::Patterns => self.channels,
            Subscribe::Channels | Subscribe::Shards => self.channels_each.min(self.channels),
        }
    }

    /// What subscriber `index` says to hear its channels.
    fn request(&self, index: usize) -> Vec<u8> {
        let name = match self.subscribe {
            Subscribe::Channels => "SUBSCRIBE",
            Subscribe::Patterns => return resp::command(&["PSUBSCRIBE", &format!("{CHANNEL}*")]),
            Subscribe::Shards => "SSUBSCRIBE",
        };
        let channels = (0..self.heard()).map(|at| format!("{CHANNEL}{}", (index + at) % self.channels));
        resp::command(&[name.to_owned()].into_iter().chain(channels).collect::<Vec<_>>())
    }

    /// The messages that the server says yes with to [`Setting::request`].
    fn confirmations(&self) -> usize {
        if self.subscribe == Subscribe::Patterns { 1 } else { self.heard() }
    }

    /// The command that publishes.
    pub fn publish(&self) -> &'static str {
        if self.subscribe == Subscribe::Shards { "SPUBLISH" } else { "PUBLISH" }
    }

    /// Subscribers, of `all`, that hear `channel`.
    fn listeners(&self, channel: usize, all: usize) -> u64 {
        let hears =
            |index: &usize| (channel + self.channels - index % self.channels) % self.channels < self.heard();
        (0..all).filter(hears).count() as u64
    }
}

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
    /// Deliveries that were owed and never came, and those that came again; of the warm-up, too.
    pub lost: u64,
    pub duplicates: u64,
}

/// What one thread counts besides its record.
#[derive(Default)]
struct Counts {
    published: u64,
    owed: u64,
    delivered: u64,
    duplicates: u64,
}

/// Let `job.clients` subscribers hear what the publishers of `setting` say; a delivery counts as a request.
///
/// Messages have `value_bytes`, and at least those of a stamp.
pub fn run(
    job: &Job,
    setting: &Setting,
    value_bytes: usize,
    stage: Stage,
) -> Result<(Outcome, Fanout), Failure> {
    resources::require_files(job.clients + setting.publishers, 1)?;
    let post_office = PostOffice::new(job, setting, value_bytes);
    let mut halls: Vec<_> =
        (0..job.threads).map(|thread| Hall::open(&post_office, thread)).collect::<Result<_, _>>()?;
    halls.iter_mut().try_for_each(Hall::settle)?;
    let span = stage.span(clock::now());
    let mut sum = Counts::default();
    let mut records = Vec::new();
    for (record, counts) in on_threads(job, halls, |hall, failed| hall.run(&span, failed))? {
        records.push(record);
        sum.published += counts.published;
        sum.owed += counts.owed;
        sum.delivered += counts.delivered;
        sum.duplicates += counts.duplicates;
    }
    let outcome = Outcome { span, records, probe: None };
    let window_s = seconds(Total::of(&outcome).window_ns);
    let fanout = Fanout {
        publishers: setting.publishers,
        channels: setting.channels,
        subscribe: setting.subscribe,
        asked_rps: setting.rate,
        published: sum.published,
        published_rps: round(per(sum.published as f64, window_s), 1),
        lost: sum.owed.saturating_sub(sum.delivered),
        duplicates: sum.duplicates,
    };
    Ok((outcome, fanout))
}

/// What all threads read.
struct PostOffice<'a> {
    job: &'a Job,
    setting: &'a Setting,
    target: &'a Target,
    /// The publishing command of each channel, whose value has room for a stamp.
    letters: Vec<Vec<u8>>,
    value_bytes: usize,
    /// Subscribers of each channel.
    listeners: Vec<u64>,
    /// Threads that may still publish.
    publishing: AtomicUsize,
}

impl<'a> PostOffice<'a> {
    fn new(job: &'a Job, setting: &'a Setting, value_bytes: usize) -> PostOffice<'a> {
        let value = blank(value_bytes, job.seed);
        let letter = |channel: usize| {
            let name = format!("{CHANNEL}{channel}");
            resp::command(&[setting.publish().as_bytes(), name.as_bytes(), &value])
        };
        PostOffice {
            job,
            setting,
            target: &job.nodes[0].target,
            letters: (0..setting.channels).map(letter).collect(),
            value_bytes: value.len(),
            listeners: (0..setting.channels).map(|at| setting.listeners(at, job.clients)).collect(),
            publishing: AtomicUsize::new(job.threads),
        }
    }
}

/// A subscriber.
struct Ear {
    line: Line,
    /// The first of its channels.
    first: usize,
    confirmed: usize,
    /// The next message of each publisher on each of its channels.
    next: Vec<u64>,
    is_pinged: bool,
    ponged: bool,
}

/// A publisher.
struct Mouth {
    line: Line,
    index: usize,
    quota: u64,
    schedule: Option<Schedule>,
    /// The next channel, and the next message on each.
    channel: usize,
    next: Vec<u64>,
    unanswered: usize,
}

/// Subscribers and publishers of one thread.
struct Hall<'a> {
    office: &'a PostOffice<'a>,
    epoll: Epoll,
    ears: Vec<Ear>,
    mouths: Vec<Mouth>,
    counts: Counts,
    /// Whether its publishers have nothing more to say.
    is_quiet: bool,
}

impl<'a> Hall<'a> {
    fn open(office: &'a PostOffice<'a>, thread: usize) -> Result<Hall<'a>, Failure> {
        let PostOffice { job, setting, target, .. } = office;
        let epoll = Epoll::new(1024).map_err(machine_failure)?;
        let mut ears = Vec::new();
        for index in (thread..job.clients).step_by(job.threads) {
            let mut line = Line::open(target, format!("subscriber {index}"), &epoll, ears.len())?;
            line.say(&setting.request(index), &epoll)?;
            let next = vec![0; setting.heard() * setting.publishers];
            let first = match setting.subscribe {
                Subscribe::Patterns => 0,
                Subscribe::Channels | Subscribe::Shards => index % setting.channels,
            };
            ears.push(Ear { line, first, confirmed: 0, next, is_pinged: false, ponged: false });
        }
        let mut mouths = Vec::new();
        for index in (thread..setting.publishers).step_by(job.threads) {
            let token = ears.len() + mouths.len();
            let line = Line::open(target, format!("publisher {index}"), &epoll, token)?;
            let next = vec![0; setting.channels];
            let channel = index % setting.channels;
            mouths.push(Mouth { line, index, quota: 0, schedule: None, channel, next, unanswered: 0 });
        }
        Ok(Hall { office, epoll, ears, mouths, counts: Counts::default(), is_quiet: false })
    }

    /// Wait until all subscriptions are confirmed.
    fn settle(&mut self) -> Result<(), Failure> {
        let deadline = clock::now() + self.office.job.timeout_ns();
        let wanted = self.office.setting.confirmations();
        while let Some(deaf) = self.ears.iter().find(|ear| ear.confirmed < wanted) {
            let left = deadline.saturating_sub(clock::now());
            if left == 0 {
                return Err(deaf.line.silent(self.office.target));
            }
            for event in
                0..self.epoll.wait(left.div_ceil(NS_PER_MS) as libc::c_int).map_err(machine_failure)?
            {
                self.serve(self.epoll.ready(event).token, None)?;
            }
        }
        Ok(())
    }

    fn run(mut self, span: &Span, failed: &AtomicBool) -> Result<(Record, Counts), Failure> {
        let PostOffice { job, setting, .. } = self.office;
        let mut meter = Meter::new(*span, job.slice_ns, job.server_pid);
        let began = clock::now();
        for mouth in &mut self.mouths {
            mouth.quota = span.quota(mouth.index, setting.publishers, 1);
            mouth.schedule = setting.rate.map(|rate| schedule(rate, mouth.index, setting.publishers, span));
        }
        let mut patrol_at = began + PATROL_NS;
        while self.ears.iter().any(|ear| !ear.ponged) || !self.is_quiet {
            let now = clock::now();
            meter.reach(now)?;
            self.publish(now, span)?;
            if now >= patrol_at {
                patrol_at = now + PATROL_NS;
                self.patrol(now, failed)?;
            }
            let due = self.mouths.iter().filter(|mouth| span.allowance(now, mouth.quota, 1) > 0);
            let due =
                due.filter_map(|mouth| mouth.schedule.as_ref()).map(Schedule::due).min().unwrap_or(u64::MAX);
            let until = meter.edge().min(patrol_at).min(due).saturating_sub(now);
            for event in 0..self.epoll.wait_ns(until).map_err(machine_failure)? {
                self.serve(self.epoll.ready(event).token, Some(&mut meter))?;
            }
        }
        Ok((meter.finish(clock::now())?, self.counts))
    }

    /// Say what may be said now; when nobody has more to say, ask the subscribers for an end.
    fn publish(&mut self, now: u64, span: &Span) -> Result<(), Failure> {
        if self.is_quiet {
            return self.ask_for_the_end();
        }
        let mut is_quiet = true;
        for mouth in &mut self.mouths {
            while let Some(sent_at) = mouth.turn(now, span, self.office.job.pipeline) {
                self.counts.owed += self.office.listeners[mouth.channel];
                self.counts.published += u64::from((span.counts_from..span.ends_at).contains(&now));
                mouth.say(sent_at, self.office, &self.epoll)?;
            }
            is_quiet &= mouth.unanswered == 0 && span.allowance(now, mouth.quota, 1) == 0;
        }
        if is_quiet {
            self.is_quiet = true;
            self.office.publishing.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(())
    }

    fn ask_for_the_end(&mut self) -> Result<(), Failure> {
        if self.office.publishing.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        for ear in self.ears.iter_mut().filter(|ear| !ear.is_pinged) {
            ear.is_pinged = true;
            ear.line.say(&resp::command(&["PING"]), &self.epoll)?;
        }
        Ok(())
    }

    /// The socket `token` is ready. Without a meter there are no messages yet.
    fn serve(&mut self, token: usize, meter: Option<&mut Meter>) -> Result<(), Failure> {
        let mouth = token.checked_sub(self.ears.len());
        let Some(mouth) = mouth else {
            return self.ears[token].serve(self.office, &self.epoll, &mut self.counts, meter);
        };
        let Mouth { line, unanswered, .. } = &mut self.mouths[mouth];
        line.flush(&self.epoll)?;
        line.hear(|line, flat, _| {
            if flat.kind != b':' || *unanswered == 0 {
                return Err(line.refused(flat));
            }
            *unanswered -= 1;
            Ok(())
        })
    }

    fn patrol(&mut self, now: u64, failed: &AtomicBool) -> Result<(), Failure> {
        if failed.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let target = self.office.target;
        let mouths = self.mouths.iter_mut().filter(|mouth| mouth.unanswered > 0).map(|mouth| &mut mouth.line);
        let ears = self.ears.iter_mut().filter(|ear| ear.is_pinged && !ear.ponged).map(|ear| &mut ear.line);
        match mouths.chain(ears).find_map(|line| line.is_still(now, target).then_some(line)) {
            Some(line) => Err(line.silent(target)),
            None => Ok(()),
        }
    }
}

impl Mouth {
    /// The moment to stamp if it may speak now: when it was to speak, or is about to.
    fn turn(&mut self, now: u64, span: &Span, pipeline: usize) -> Option<u64> {
        if span.allowance(now, self.quota, 1) == 0 {
            return None;
        }
        match &mut self.schedule {
            Some(schedule) => due(schedule, now),
            None => (self.unanswered < pipeline).then(clock::now),
        }
    }

    fn say(&mut self, sent_at: u64, office: &PostOffice, epoll: &Epoll) -> Result<(), Failure> {
        let mut letter = office.letters[self.channel].clone();
        let value = letter.len() - 2 - office.value_bytes;
        let sequence = self.next[self.channel];
        Stamp { sent_at, sequence, sender: self.index as u32 }.write(&mut letter[value..]);
        self.next[self.channel] += 1;
        self.channel = (self.channel + 1) % self.next.len();
        self.quota -= 1;
        self.unanswered += 1;
        self.line.say(&letter, epoll)
    }
}

impl Ear {
    fn serve(
        &mut self,
        office: &PostOffice,
        epoll: &Epoll,
        counts: &mut Counts,
        mut meter: Option<&mut Meter>,
    ) -> Result<(), Failure> {
        let Ear { line, first, confirmed, next, ponged, .. } = self;
        line.flush(epoll)?;
        line.hear(|line, flat, now| {
            let is_message = matches!(flat.kind, b'*' | b'>');
            let (channel, value) = match flat.word(0) {
                // RESP3 answers PING with a line.
                b"pong" | b"PONG" => {
                    *ponged = true;
                    return Ok(());
                }
                _ if !is_message => return Err(line.refused(flat)),
                b"message" | b"smessage" => (flat.word(1), flat.word(2)),
                b"pmessage" => (flat.word(2), flat.word(3)),
                b"subscribe" | b"psubscribe" | b"ssubscribe" => {
                    *confirmed += 1;
                    return Ok(());
                }
                _ => return Err(line.refused(flat)),
            };
            let (stamp, place) =
                place(office.setting, *first, channel, value).ok_or_else(|| line.foreign())?;
            let next = &mut next[place];
            if stamp.sequence < *next {
                counts.duplicates += 1;
                return Ok(());
            }
            *next = stamp.sequence + 1;
            counts.delivered += 1;
            let one = Tally { replies: 1, ..Tally::default() };
            meter.as_mut().map_or(Ok(()), |meter| meter.count(now, Begin::at(stamp.sent_at), one))
        })
    }
}

/// The stamp of a message, and its place among the publishers on the channels of a subscriber; none when it is of
/// somebody else.
fn place(setting: &Setting, first: usize, channel: &[u8], value: &[u8]) -> Option<(Stamp, usize)> {
    let number: usize = std::str::from_utf8(channel.strip_prefix(CHANNEL.as_bytes())?).ok()?.parse().ok()?;
    let stamp = Stamp::read(value)?;
    let at = (number + setting.channels - first) % setting.channels;
    let is_ours = number < setting.channels && at < setting.heard();
    let sender =
        usize::try_from(stamp.sender).ok().filter(|sender| is_ours && *sender < setting.publishers)?;
    Some((stamp, at * setting.publishers + sender))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_counted_where_they_listen() {
        let setting = Setting { publishers: 2, channels: 3, channels_each: 2, ..Setting::default() };
        // Subscribers 0 to 3 hear 01, 12, 20, 01.
        assert_eq!([0, 1, 2].map(|channel| setting.listeners(channel, 4)), [3, 3, 2]);
        let all = Setting { subscribe: Subscribe::Patterns, ..setting };
        assert_eq!([0, 1, 2].map(|channel| all.listeners(channel, 4)), [4, 4, 4]);
    }

    #[test]
    fn a_message_of_somebody_else_has_no_place() {
        let setting = Setting { publishers: 2, channels: 3, channels_each: 2, ..Setting::default() };
        let mut value = [0; 20];
        Stamp { sent_at: 1, sequence: 5, sender: 1 }.write(&mut value);
        let at = |channel: &[u8], value: &[u8]| place(&setting, 2, channel, value).map(|(_, at)| at);
        assert_eq!((at(b"speedbench:2", &value), at(b"speedbench:0", &value)), (Some(1), Some(3)));
        assert_eq!((at(b"speedbench:1", &value), at(b"speedbench:5", &value)), (None, None));
        assert_eq!((at(b"news", &value), at(b"speedbench:2", b"hello")), (None, None));
    }
}
