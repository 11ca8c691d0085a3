//! Clients that block in the server until a value is pushed: how long it takes until one of them has it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::message_connection::MessageConnection;
use crate::parallel::CHECK_EVERY_NS;
use crate::stamp::{Stamp, blank};
use crate::timing::{due, schedule};
use engine::connection::SendTimes;
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

/// A command that blocks, and the one that pushes a value for it.
struct BlockingCommand {
    name: &'static str,
    /// Words: `KEY`, `CLIENT`, `VALUE`, and the timeout in `SECONDS` or `MS`.
    wait: &'static str,
    push: &'static str,
    /// What the answer to `push` begins with.
    push_reply: u8,
    /// What each key needs before, if anything.
    prepare: Option<&'static str>,
    /// Which word of the answer is the value.
    value_at: usize,
}

const COMMANDS: [BlockingCommand; 3] = [
    BlockingCommand {
        name: "blpop",
        wait: "BLPOP KEY SECONDS",
        push: "RPUSH KEY VALUE",
        push_reply: b':',
        prepare: None,
        value_at: 1,
    },
    BlockingCommand {
        name: "bzpopmin",
        wait: "BZPOPMIN KEY SECONDS",
        push: "ZADD KEY 0 VALUE",
        push_reply: b':',
        prepare: None,
        value_at: 1,
    },
    BlockingCommand {
        name: "xreadgroup",
        wait: "XREADGROUP GROUP speedbench CLIENT COUNT 1 BLOCK MS NOACK STREAMS KEY >",
        push: "XADD KEY MAXLEN ~ 100000 * v VALUE",
        push_reply: b'$',
        prepare: Some("XGROUP CREATE KEY speedbench $ MKSTREAM"),
        value_at: 3,
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setting {
    pub command: Command,
    /// How long the server blocks a client; 0 for ever.
    pub block_s: f64,
    /// Values per second; without a rate `pipeline` values are in flight.
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
    /// The name of the command that blocks.
    pub fn name(&self) -> &'static str {
        COMMANDS[self.command as usize].name
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

/// What was pushed to the blocked clients.
#[derive(Debug, Serialize)]
pub struct Wakeup {
    pub command: &'static str,
    pub asked_rps: Option<f64>,
    /// Sent in the window.
    pub pushed: u64,
    /// How often in the window the server unblocked a client without a value.
    pub timeouts: u64,
}

/// Let `job.clients` clients block, and one more push values; a value that a client got counts as a request.
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
    let command = &COMMANDS[setting.command as usize];
    let clients = Clients::open(job, setting, value_bytes, command)?;
    let span = stage.span(clock::now());
    let (record, pushed, timeouts) = clients.run(&span)?;
    clear(job)?;
    let wakeup = Wakeup { command: command.name, asked_rps: setting.rate, pushed, timeouts };
    Ok((Outcome { span, records: vec![record], probe: None, cut: None }, wakeup))
}

/// The number of keys: each has a client that blocks on it.
fn keys(job: &Job) -> usize {
    usize::try_from(job.keyspace).unwrap_or(usize::MAX).min(job.clients)
}

fn key(number: usize) -> String {
    format!("speedbench:waiting:{number}")
}

/// The words of `line` for one client and key, with the value and the timeout.
fn words(line: &str, client: usize, number: usize, block_s: f64, value: &[u8]) -> Vec<Vec<u8>> {
    let word = |word: &str| match word {
        "KEY" => key(number).into_bytes(),
        "CLIENT" => format!("client-{client}").into_bytes(),
        "SECONDS" => block_s.to_string().into_bytes(),
        // 0 means for ever, so a fraction of a millisecond becomes 1.
        "MS" => ((block_s * 1000.0).ceil() as u64).to_string().into_bytes(),
        "VALUE" => value.to_vec(),
        _ => word.as_bytes().to_vec(),
    };
    line.split(' ').map(word).collect()
}

/// Delete what this or an earlier run has left.
fn clear(job: &Job) -> Result<(), Failure> {
    let words: Vec<String> = ["DEL".to_owned()].into_iter().chain((0..keys(job)).map(key)).collect();
    prepare(&job.nodes, &words)
}

/// The clients that block and the one that pushes. A client's token is its index; the last token is the pusher's.
struct Clients<'a> {
    job: &'a Job,
    setting: &'a Setting,
    command: &'static BlockingCommand,
    epoll: Epoll,
    waiting: Vec<MessageConnection>,
    requests: Vec<Vec<u8>>,
    pusher: MessageConnection,
    /// The pushing command of each key, whose value has room for a stamp.
    push_commands: Vec<Vec<u8>>,
    value_bytes: usize,
    /// Values that no client has got yet, and push commands that are not answered.
    in_flight: HashSet<u64>,
    unanswered: usize,
    next: u64,
    quota: u64,
    progress_at: u64,
    pushed: u64,
    timeouts: u64,
}

impl<'a> Clients<'a> {
    fn open(
        job: &'a Job,
        setting: &'a Setting,
        value_bytes: usize,
        command: &'static BlockingCommand,
    ) -> Result<Clients<'a>, Failure> {
        clear(job)?;
        let value = blank(value_bytes, job.seed);
        for number in 0..keys(job) {
            let Some(line) = command.prepare else { break };
            let words = words(line, 0, number, 0.0, b"");
            let words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            prepare(&job.nodes, &words.collect::<Vec<_>>())?;
        }
        let target = &job.nodes[0].target;
        let epoll = Epoll::new(1024).map_err(machine_failure)?;
        let open =
            |index: usize| MessageConnection::open(target, format!("waiting client {index}"), &epoll, index);
        let mut waiting = (0..job.clients).map(open).collect::<Result<Vec<_>, _>>()?;
        let request = |index: usize| {
            resp::command(&words(command.wait, index, index % keys(job), setting.block_s, b""))
        };
        let requests: Vec<_> = (0..job.clients).map(request).collect();
        for (client, request) in waiting.iter_mut().zip(&requests) {
            client.send(request, &epoll)?;
        }
        let pusher = MessageConnection::open(
            target,
            command.push.split(' ').next().unwrap_or_default().to_owned(),
            &epoll,
            job.clients,
        )?;
        let push_command = |number| resp::command(&words(command.push, 0, number, 0.0, &value));
        let push_commands = (0..keys(job)).map(push_command).collect();
        Ok(Clients {
            job,
            setting,
            command,
            epoll,
            waiting,
            requests,
            pusher,
            push_commands,
            value_bytes: value.len(),
            in_flight: HashSet::new(),
            unanswered: 0,
            next: 0,
            quota: 0,
            progress_at: 0,
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
            meter.advance(now)?;
            let may_push = |clients: &Self| span.allowance(now, clients.quota, 1) > 0;
            while may_push(&self)
                && let Some(sent_at) = self.push_time(now, schedule.as_mut())
            {
                self.pushed += u64::from((span.counts_from..span.ends_at).contains(&now));
                self.push(sent_at, now)?;
            }
            if !may_push(&self) && self.in_flight.is_empty() && self.unanswered == 0 {
                return Ok((meter.finish(clock::now())?, self.pushed, self.timeouts));
            }
            self.check_progress(now)?;
            let due = schedule.as_ref().filter(|_| may_push(&self)).map_or(u64::MAX, Schedule::due);
            let until = meter.edge().min(now + CHECK_EVERY_NS).min(due).saturating_sub(now);
            for event in 0..self.epoll.wait_ns(until).map_err(machine_failure)? {
                match self.epoll.ready(event).token {
                    token if token < self.waiting.len() => self.receive_value(token, span, &mut meter)?,
                    _ => self.receive_push_reply()?,
                }
            }
        }
    }

    /// The time to stamp if a value may be pushed now: when it was due, or the present.
    fn push_time(&self, now: u64, schedule: Option<&mut Schedule>) -> Option<u64> {
        match schedule {
            Some(schedule) => due(schedule, now),
            None => (self.in_flight.len() < self.job.pipeline).then(clock::now),
        }
    }

    fn push(&mut self, sent_at: u64, now: u64) -> Result<(), Failure> {
        let keys = self.push_commands.len() as u64;
        let command = &mut self.push_commands[(self.next % keys) as usize];
        let value = command.len() - 2 - self.value_bytes;
        Stamp { sent_at, sequence: self.next, sender: 0 }.write(&mut command[value..]);
        self.pusher.send(command, &self.epoll)?;
        if self.in_flight.is_empty() && self.unanswered == 0 {
            self.progress_at = now;
        }
        self.in_flight.insert(self.next);
        self.unanswered += 1;
        self.next += 1;
        self.quota -= 1;
        Ok(())
    }

    /// Take what client `index` got, and let it block again.
    fn receive_value(&mut self, index: usize, span: &Span, meter: &mut Meter) -> Result<(), Failure> {
        let mut answers = 0;
        let Clients { waiting, in_flight, progress_at, timeouts, command, .. } = self;
        let client = &mut waiting[index];
        client.flush(&self.epoll)?;
        client.receive(|name, message, now| {
            answers += 1;
            let value = message.word(command.value_at);
            if message.is_error() || value.is_empty() && !message.is_null {
                return Err(name.refused(message));
            }
            if message.is_null {
                *timeouts += u64::from((span.counts_from..span.ends_at).contains(&now));
                return Ok(());
            }
            let stamp = Stamp::read(value).filter(|stamp| in_flight.remove(&stamp.sequence));
            let stamp = stamp.ok_or_else(|| name.foreign())?;
            *progress_at = now;
            meter.count(now, SendTimes::at(stamp.sent_at), Tally { replies: 1, ..Tally::default() })
        })?;
        for _ in 0..answers {
            client.send(&self.requests[index], &self.epoll)?;
        }
        if client.has_part() {
            self.progress_at = clock::now();
        }
        Ok(())
    }

    fn receive_push_reply(&mut self) -> Result<(), Failure> {
        let Clients { pusher, unanswered, progress_at, command, .. } = self;
        pusher.flush(&self.epoll)?;
        pusher.receive(|name, message, now| {
            if message.kind != command.push_reply || message.is_null || *unanswered == 0 {
                return Err(name.refused(message));
            }
            *unanswered -= 1;
            *progress_at = now;
            Ok(())
        })
    }

    fn check_progress(&mut self, now: u64) -> Result<(), Failure> {
        resources::check_signals()?;
        let target = &self.job.nodes[0].target;
        let idle = self.in_flight.is_empty() && self.unanswered == 0;
        let late = now.saturating_sub(self.progress_at) > self.job.timeout_ns();
        if idle || !self.pusher.is_silent(now, target) || !late {
            return Ok(());
        }
        match self.unanswered {
            0 => Err(Failure::run(
                format!(
                    "{} values were pushed and given to no client for {:?}",
                    self.in_flight.len(),
                    target.timeout
                ),
                "keep other clients away from keys that begin with speedbench:",
            )),
            _ => Err(self.pusher.silent(target)),
        }
    }
}
