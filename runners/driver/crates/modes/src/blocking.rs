//! Clients that wait in the server until somebody brings a value: how long it takes until one of them has it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::line::Line;
use crate::parallel::PATROL_NS;
use crate::stamp::{Stamp, blank};
use crate::timing::{due, schedule};
use engine::connection::Begin;
use engine::job::Job;
use engine::meter::Meter;
use engine::node::prepare;
use engine::outcome::Outcome;
use engine::record::Record;
use engine::resources;
use engine::schedule::Schedule;
use engine::stage::{Span, Stage};
use machine::clock;
use machine::epoll::Epoll;
use protocol::replies::Tally;
use protocol::resp;
use text::checks::require;
use text::failure::{Failure, machine_failure};

/// A command that waits, and the one that brings.
struct Pop {
    name: &'static str,
    /// Words: `KEY`, `CLIENT`, `VALUE`, and how long to wait in `SECONDS` or `MS`.
    wait: &'static str,
    push: &'static str,
    /// What the answer to that begins with.
    pushed: u8,
    /// What each key needs before.
    prepare: Option<&'static str>,
    /// Which word of the answer is the value.
    value_at: usize,
}

const POPS: [Pop; 3] = [
    Pop {
        name: "blpop",
        wait: "BLPOP KEY SECONDS",
        push: "RPUSH KEY VALUE",
        pushed: b':',
        prepare: None,
        value_at: 1,
    },
    Pop {
        name: "bzpopmin",
        wait: "BZPOPMIN KEY SECONDS",
        push: "ZADD KEY 0 VALUE",
        pushed: b':',
        prepare: None,
        value_at: 1,
    },
    Pop {
        name: "xreadgroup",
        wait: "XREADGROUP GROUP speedbench CLIENT COUNT 1 BLOCK MS NOACK STREAMS KEY >",
        push: "XADD KEY MAXLEN ~ 100000 * v VALUE",
        pushed: b'$',
        prepare: Some("XGROUP CREATE KEY speedbench $ MKSTREAM"),
        value_at: 3,
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    pub command: Command,
    /// How long the server lets a client wait; 0 for ever.
    pub block_s: f64,
    /// Values per second; without it there are `pipeline` values on their way.
    #[serde(skip)]
    pub rate: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    Blpop,
    Bzpopmin,
    Xreadgroup,
}

impl Default for Setting {
    fn default() -> Self {
        Setting { command: Command::Blpop, block_s: 1.0, rate: None }
    }
}

impl Setting {
    /// The name of the command that waits.
    pub fn name(&self) -> &'static str {
        POPS[self.command as usize].name
    }

    /// Usage failures.
    pub fn check(&self) -> Result<(), Failure> {
        require(
            (0.0..=86_400.0).contains(&self.block_s),
            "block_s is outside of 0 to 86400",
            "1 is usual; 0 is for ever",
        )
    }
}

/// What was brought to those who waited.
#[derive(Debug, Serialize)]
pub struct Wakeup {
    pub command: &'static str,
    pub asked_rps: Option<f64>,
    /// Sent in the window.
    pub pushed: u64,
    /// Waits in the window that the server ended without a value.
    pub timeouts: u64,
}

/// Let `job.clients` clients wait, and one other bring values; a value that was brought counts as a request.
///
/// Values have `value_bytes`, and at least those of a stamp.
pub fn run(
    job: &Job,
    setting: &Setting,
    value_bytes: usize,
    stage: Stage,
) -> Result<(Outcome, Wakeup), Failure> {
    resources::require_files(job.clients + 1, 1)?;
    resources::pin(job, 0)?;
    let pop = &POPS[setting.command as usize];
    let room = Room::open(job, setting, value_bytes, pop)?;
    let span = stage.span(clock::now());
    let (record, pushed, timeouts) = room.run(&span)?;
    clear(job)?;
    let wakeup = Wakeup { command: pop.name, asked_rps: setting.rate, pushed, timeouts };
    Ok((Outcome { span, records: vec![record], probe: None }, wakeup))
}

/// No key without somebody who waits for it.
fn keys(job: &Job) -> usize {
    usize::try_from(job.keyspace).unwrap_or(usize::MAX).min(job.clients)
}

fn key(number: usize) -> String {
    format!("speedbench:waiting:{number}")
}

/// The words of `line` for one client and key, with the value and the wait.
fn words(line: &str, client: usize, number: usize, block_s: f64, value: &[u8]) -> Vec<Vec<u8>> {
    let word = |word: &str| match word {
        "KEY" => key(number).into_bytes(),
        "CLIENT" => format!("client-{client}").into_bytes(),
        "SECONDS" => block_s.to_string().into_bytes(),
        // 0 is for ever, so a little more than nothing is 1.
        "MS" => ((block_s * 1000.0).ceil() as u64).to_string().into_bytes(),
        "VALUE" => value.to_vec(),
        _ => word.as_bytes().to_vec(),
    };
    line.split(' ').map(word).collect()
}

/// Remove what this or an earlier run has left.
fn clear(job: &Job) -> Result<(), Failure> {
    let words: Vec<String> = ["DEL".to_owned()].into_iter().chain((0..keys(job)).map(key)).collect();
    prepare(&job.nodes, &words)
}

/// Those who wait and the one who brings. Tokens are those of the waiting; the last one brings.
struct Room<'a> {
    job: &'a Job,
    setting: &'a Setting,
    pop: &'static Pop,
    epoll: Epoll,
    waiting: Vec<Line>,
    requests: Vec<Vec<u8>>,
    bringer: Line,
    /// The pushing command of each key, and its value, which has room for a stamp.
    gifts: Vec<Vec<u8>>,
    value_bytes: usize,
    /// Values that are on their way, and answers to the pushing of values.
    on_the_way: HashSet<u64>,
    unanswered: usize,
    next: u64,
    quota: u64,
    moved_at: u64,
    pushed: u64,
    timeouts: u64,
}

impl<'a> Room<'a> {
    fn open(
        job: &'a Job,
        setting: &'a Setting,
        value_bytes: usize,
        pop: &'static Pop,
    ) -> Result<Room<'a>, Failure> {
        clear(job)?;
        let value = blank(value_bytes, job.seed);
        for number in 0..keys(job) {
            let Some(line) = pop.prepare else { break };
            let words = words(line, 0, number, 0.0, b"");
            let words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            prepare(&job.nodes, &words.collect::<Vec<_>>())?;
        }
        let target = &job.nodes[0].target;
        let epoll = Epoll::new(1024).map_err(machine_failure)?;
        let open = |index: usize| Line::open(target, format!("waiting client {index}"), &epoll, index);
        let mut waiting = (0..job.clients).map(open).collect::<Result<Vec<_>, _>>()?;
        let request =
            |index: usize| resp::command(&words(pop.wait, index, index % keys(job), setting.block_s, b""));
        let requests: Vec<_> = (0..job.clients).map(request).collect();
        for (line, request) in waiting.iter_mut().zip(&requests) {
            line.say(request, &epoll)?;
        }
        let bringer = Line::open(
            target,
            pop.push.split(' ').next().unwrap_or_default().to_owned(),
            &epoll,
            job.clients,
        )?;
        let gift = |number| resp::command(&words(pop.push, 0, number, 0.0, &value));
        let gifts = (0..keys(job)).map(gift).collect();
        Ok(Room {
            job,
            setting,
            pop,
            epoll,
            waiting,
            requests,
            bringer,
            gifts,
            value_bytes: value.len(),
            on_the_way: HashSet::new(),
            unanswered: 0,
            next: 0,
            quota: 0,
            moved_at: 0,
            pushed: 0,
            timeouts: 0,
        })
    }

    fn run(mut self, span: &Span) -> Result<(Record, u64, u64), Failure> {
        let mut meter = Meter::new(*span, self.job.slice_ns, self.job.server_pid);
        self.quota = span.quota(0, 1, 1);
        let mut schedule = self.setting.rate.map(|rate| schedule(rate, 0, 1, span));
        loop {
            let now = clock::now();
            meter.reach(now)?;
            let may_push = |room: &Self| span.allowance(now, room.quota, 1) > 0;
            while may_push(&self)
                && let Some(sent_at) = self.turn(now, schedule.as_mut())
            {
                self.pushed += u64::from((span.counts_from..span.ends_at).contains(&now));
                self.push(sent_at, now)?;
            }
            if !may_push(&self) && self.on_the_way.is_empty() && self.unanswered == 0 {
                return Ok((meter.finish(clock::now())?, self.pushed, self.timeouts));
            }
            self.patrol(now)?;
            let due = schedule.as_ref().filter(|_| may_push(&self)).map_or(u64::MAX, Schedule::due);
            let until = meter.edge().min(now + PATROL_NS).min(due).saturating_sub(now);
            for event in 0..self.epoll.wait_ns(until).map_err(machine_failure)? {
                match self.epoll.ready(event).token {
                    token if token < self.waiting.len() => self.wake(token, span, &mut meter)?,
                    _ => self.hear_bringer()?,
                }
            }
        }
    }

    /// The moment to stamp if a value may be pushed now: when it was to be, or is about to.
    fn turn(&self, now: u64, schedule: Option<&mut Schedule>) -> Option<u64> {
        match schedule {
            Some(schedule) => due(schedule, now),
            None => (self.on_the_way.len() < self.job.pipeline).then(clock::now),
        }
    }

    fn push(&mut self, sent_at: u64, now: u64) -> Result<(), Failure> {
        let gifts = self.gifts.len() as u64;
        let gift = &mut self.gifts[(self.next % gifts) as usize];
        let value = gift.len() - 2 - self.value_bytes;
        Stamp { sent_at, sequence: self.next, sender: 0 }.write(&mut gift[value..]);
        self.bringer.say(gift, &self.epoll)?;
        if self.on_the_way.is_empty() && self.unanswered == 0 {
            self.moved_at = now;
        }
        self.on_the_way.insert(self.next);
        self.unanswered += 1;
        self.next += 1;
        self.quota -= 1;
        Ok(())
    }

    /// Take what waiting client `index` was given, and let it wait again.
    fn wake(&mut self, index: usize, span: &Span, meter: &mut Meter) -> Result<(), Failure> {
        let mut answers = 0;
        let Room { waiting, on_the_way, moved_at, timeouts, pop, .. } = self;
        let line = &mut waiting[index];
        line.flush(&self.epoll)?;
        line.hear(|name, flat, now| {
            answers += 1;
            let value = flat.word(pop.value_at);
            if flat.is_error() || value.is_empty() && !flat.is_null {
                return Err(name.refused(flat));
            }
            if flat.is_null {
                *timeouts += u64::from((span.counts_from..span.ends_at).contains(&now));
                return Ok(());
            }
            let stamp = Stamp::read(value).filter(|stamp| on_the_way.remove(&stamp.sequence));
            let stamp = stamp.ok_or_else(|| name.foreign())?;
            *moved_at = now;
            meter.count(now, Begin::at(stamp.sent_at), Tally { replies: 1, ..Tally::default() })
        })?;
        for _ in 0..answers {
            line.say(&self.requests[index], &self.epoll)?;
        }
        if line.has_part() {
            self.moved_at = clock::now();
        }
        Ok(())
    }

    fn hear_bringer(&mut self) -> Result<(), Failure> {
        let Room { bringer, unanswered, moved_at, pop, .. } = self;
        bringer.flush(&self.epoll)?;
        bringer.hear(|name, flat, now| {
            if flat.kind != pop.pushed || flat.is_null || *unanswered == 0 {
                return Err(name.refused(flat));
            }
            *unanswered -= 1;
            *moved_at = now;
            Ok(())
        })
    }

    fn patrol(&mut self, now: u64) -> Result<(), Failure> {
        let target = &self.job.nodes[0].target;
        let idle = self.on_the_way.is_empty() && self.unanswered == 0;
        let late = now.saturating_sub(self.moved_at) > self.job.timeout_ns();
        if idle || !self.bringer.is_still(now, target) || !late {
            return Ok(());
        }
        match self.unanswered {
            0 => Err(Failure::run(
                format!(
                    "{} values were brought and given to nobody for {:?}",
                    self.on_the_way.len(),
                    target.timeout
                ),
                "keep other clients away from keys that begin with speedbench:",
            )),
            _ => Err(self.bringer.silent(target)),
        }
    }
}
