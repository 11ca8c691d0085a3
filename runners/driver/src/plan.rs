//! What is asked of a run, checked: a server, and phases of load on it. Flags and workload files both become this value.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cli::{fits, require};
use crate::digits;
use crate::failure::Failure;
use crate::job::{Verify, Window};
use crate::keys::Distribution;
use crate::modes::{blocking, pubsub};
use crate::net::Target;
use crate::schedule::Law;
use crate::template::{Placeholders, Value};
use crate::values::{Sizes, Ttl};
use crate::warmup::FEWEST_SLICES;
use crate::workload::{Protocol, Workload};

const LARGEST_VALUE: usize = 512 * 1024 * 1024;
/// Requests are kept whole in memory, up to ten values in each.
const LARGEST_MEMCACHED_VALUE: usize = 16 * 1024 * 1024;

/// No window is longer.
const LONGEST_S: f64 = 86_400.0;
const HIGHEST_RATE: f64 = 1e8;
/// As redis-benchmark has it: their stacks alone can exhaust a process.
pub const MOST_THREADS: usize = 500;

#[derive(Debug)]
pub struct Plan {
    /// The command line as it may be published: without passwords.
    pub argv: Vec<String>,
    pub protocol: Protocol,
    pub target: Target,
    /// The database whose keys are counted.
    pub database: u32,
    /// Whether the target is one node of a cluster, all of whose masters take a part of the load.
    pub cluster: bool,
    pub seed: u64,
    /// Whether prefills may overwrite what the server holds.
    pub overwrites: bool,
    /// CPU of each thread; empty when they are not pinned.
    pub cpus: Vec<usize>,
    pub server_pid: Option<u32>,
    /// What the kernel is to count of the server.
    pub server_events: Vec<&'static str>,
    pub slice_ms: u64,
    pub allow_errors: bool,
    pub output: Output,
    /// The file that gets the latencies of each second.
    pub hdr_log: Option<String>,
    /// Run in this order; at least one.
    pub phases: Vec<Phase>,
}

/// How the result is written to stdout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    #[default]
    Table,
    Json,
    Csv,
}

/// One load on the server, with a result of its own.
#[derive(Debug, Clone)]
pub struct Phase {
    pub name: String,
    pub workload: Workload,
    pub clients: usize,
    pub threads: usize,
    /// Units of the workload per batch, or in flight.
    pub pipeline: usize,
    pub window: Window,
    pub keys: KeySpace,
    pub values: Sizes,
    /// What `__ttl__` stands for.
    pub ttl: Option<Ttl>,
    /// Whether every key is set once before, and counted.
    pub prefill: bool,
    pub expect: Expect,
    /// The share of the values read that is compared in full.
    pub verify: f64,
    /// Fixed, or the least time when there is a most.
    pub warmup: Duration,
    /// The warm-up ends before this when the load is steady.
    pub warmup_most: Option<Duration>,
    pub length: Length,
    pub mode: Mode,
    pub probe: Option<Probe>,
    pub resp3: bool,
    pub tracking: bool,
}

/// How long the window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Lasting(Duration),
    Requests(u64),
}

/// Keys 0 to `count` - 1, and how often each is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeySpace {
    pub count: u64,
    pub distribution: Distribution,
}

/// What should come out; a flag is raised when it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Expect {
    /// Least and greatest share of the keys looked for that were there.
    pub hit_rate: Option<[f64; 2]>,
    /// Keys in the server afterwards.
    pub keys: Option<u64>,
}

/// When requests are sent, or what else connections do.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// After the replies to those before.
    Closed,
    /// On a schedule, `rate` requests per second of all connections together.
    Open {
        rate: f64,
        arrivals: Law,
    },
    /// The highest rate whose latencies keep the limit.
    Search {
        limit: Limit,
        arrivals: Law,
        /// The first rate; a part of what a closed loop draws, if none is given.
        from: Option<f64>,
    },
    /// Each of these rates.
    Sweep {
        rates: Vec<f64>,
        arrivals: Law,
    },
    /// Connections that are open, and silent.
    Idle,
    /// Connections that are opened and closed.
    Churn,
    PubSub(pubsub::Setting),
    /// Clients that wait in the server.
    Blocking(blocking::Setting),
}

/// So many percent of the latencies are at most so long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    pub percentile: f64,
    pub us: f64,
}

/// Connections of a thread of their own that send at a low rate beside the load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    #[serde(default = "one")]
    pub clients: usize,
    #[serde(default = "hundred")]
    pub rate: f64,
}

fn one() -> usize {
    1
}

fn hundred() -> f64 {
    100.0
}

/// A usage failure unless `rate`, called `name`, is one.
pub fn check_rate(rate: f64, name: &str) -> Result<f64, Failure> {
    require(
        rate > 0.0 && rate <= HIGHEST_RATE,
        &format!("{name} cannot be {rate}"),
        "give requests per second above 0, at most 10^8",
    )?;
    Ok(rate)
}

impl Limit {
    pub fn check(self, name: &str) -> Result<Limit, Failure> {
        require(
            self.percentile > 0.0 && self.percentile <= 100.0 && self.us > 0.0 && self.us <= 1e9,
            &format!("{name} cannot be {} us at {}%", self.us, self.percentile),
            "give a percentile above 0, at most 100, and us above 0, at most 10^9",
        )?;
        Ok(self)
    }
}

impl Probe {
    /// In the words of `clients` and `rate`.
    pub fn check(self, clients: &str, rate: &str) -> Result<Probe, Failure> {
        require(self.clients > 0, &format!("{clients} cannot be 0"), "give at least 1 client")?;
        check_rate(self.rate, rate)?;
        Ok(self)
    }
}

impl Default for Probe {
    fn default() -> Probe {
        Probe { clients: one(), rate: hundred() }
    }
}

/// What settings are called where they were given.
pub struct Terms {
    pub clients: &'static str,
    pub threads: &'static str,
    pub pipeline: &'static str,
    pub keys: &'static str,
    pub bytes: &'static str,
    pub length: &'static str,
    pub resp3: &'static str,
    pub tracking: &'static str,
}

impl Mode {
    /// Whether its connections send requests again and again.
    fn sends(&self) -> bool {
        matches!(self, Mode::Closed | Mode::Open { .. } | Mode::Search { .. } | Mode::Sweep { .. })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Mode::Closed => "closed",
            Mode::Open { .. } => "open",
            Mode::Search { .. } => "search",
            Mode::Sweep { .. } => "sweep",
            Mode::Idle => "idle",
            Mode::Churn => "churn",
            Mode::PubSub(_) => "pubsub",
            Mode::Blocking(_) => "blocking",
        }
    }

    /// What is sent when nothing is named, if there is a usual thing.
    pub fn usual_workload(&self, protocol: Protocol) -> Option<Workload> {
        let ping = match protocol {
            Protocol::Resp => "ping",
            Protocol::Memcached => "mn",
        };
        let usual = Workload::named(protocol, ping).ok()?;
        match self {
            Mode::Idle | Mode::Churn => Some(usual),
            Mode::PubSub(setting) => Some(usual.called(&setting.publish().to_lowercase())),
            Mode::Blocking(setting) => Some(usual.called(setting.name())),
            _ => None,
        }
    }

    /// The same at `rate` values or messages per second, if it has any.
    pub fn at_rate(self, rate: Option<f64>) -> Mode {
        match self {
            Mode::PubSub(setting) => Mode::PubSub(pubsub::Setting { rate, ..setting }),
            Mode::Blocking(setting) => Mode::Blocking(blocking::Setting { rate, ..setting }),
            other => other,
        }
    }

    /// Whether it sends commands of its own and no others.
    pub fn has_own_commands(&self) -> bool {
        matches!(self, Mode::PubSub(_) | Mode::Blocking(_))
    }
}

impl Plan {
    /// Slices per line of the log, about a second of them.
    pub fn interval_slices(&self) -> Option<usize> {
        self.hdr_log.as_ref().map(|_| (1000 / self.slice_ms).max(1) as usize)
    }

    /// Usage failures that no single phase has.
    pub fn check(&self) -> Result<(), Failure> {
        let threads = self.most_threads();
        require(
            !self.cluster || self.phases.iter().all(|phase| !phase.mode.has_own_commands()),
            "modes pubsub and blocking are for one server",
            "leave --cluster out",
        )?;
        require(
            !self.cluster || self.phases.iter().all(|phase| !phase.prefill && phase.expect.keys.is_none()),
            "keys of a cluster can be neither prefilled nor counted",
            "leave --prefill or --cluster out",
        )?;
        require(
            self.cpus.is_empty() || self.cpus.len() >= threads,
            "--cpus names fewer CPUs than there are threads",
            "name one CPU per thread",
        )?;
        require(
            (1..=3_600_000).contains(&self.slice_ms),
            "--slice-ms is outside of 1 to 3600000",
            "100 is usual",
        )?;
        let looked_at = Duration::from_millis(FEWEST_SLICES * self.slice_ms);
        require(
            self.phases.iter().all(|phase| phase.warmup_most.is_none_or(|most| most >= looked_at)),
            &format!("a warm-up until the load is steady cannot end within {looked_at:?}"),
            "allow more time, or narrower slices",
        )?;
        let pid_ok = self.server_pid.is_none_or(|pid| (1..=1 << 22).contains(&pid));
        require(
            self.server_events.is_empty() || self.server_pid.is_some(),
            "--server-events needs the process",
            "give its id with --server-pid",
        )?;
        require(pid_ok, "--server-pid is not a process id", "give the pid of the server")
    }

    pub fn most_threads(&self) -> usize {
        self.phases.iter().map(|phase| phase.threads).max().unwrap_or(1)
    }
}

/// A usage failure when two phases have one name: results are known by it.
pub fn check_names(phases: &[Phase]) -> Result<(), Failure> {
    let twice = |(at, phase): &(usize, &Phase)| phases[..*at].iter().any(|other| other.name == phase.name);
    match phases.iter().enumerate().find(twice) {
        None => Ok(()),
        Some((_, phase)) => Err(Failure::usage(
            format!("two tests or phases are called {}", phase.name),
            "leave one out, or give it a name of its own in a workload file",
        )),
    }
}

impl Phase {
    /// A phase of `workload` with the usual settings.
    pub fn of(workload: Workload) -> Phase {
        Phase {
            name: workload.text(),
            workload,
            clients: 50,
            threads: 1,
            pipeline: 1,
            window: Window::Batch,
            keys: KeySpace { count: 1, distribution: Distribution::Uniform },
            values: Sizes::Fixed(3),
            ttl: None,
            prefill: false,
            expect: Expect::default(),
            verify: 0.0,
            warmup: Length::DEFAULT.usual_warmup(),
            warmup_most: None,
            length: Length::DEFAULT,
            mode: Mode::Closed,
            probe: None,
            resp3: false,
            tracking: false,
        }
    }

    /// What the placeholders of its commands stand for, with `tags` in a cluster.
    pub fn places(&self, tags: bool) -> Placeholders {
        let value = match self.values {
            Sizes::Fixed(bytes) => Value::Drawn(bytes),
            _ => Value::Varying(self.values.largest()),
        };
        Placeholders { numbers: true, tags, value, ttl: self.ttl }
    }

    /// Threads that have tables of files of their own.
    pub fn threads_with_files(&self) -> usize {
        if self.mode.sends() { self.threads } else { 1 }
    }

    /// The commands with which its connections begin, besides a login.
    pub fn greeting(&self) -> Vec<Vec<String>> {
        let wanted = [(self.resp3, "HELLO 3"), (self.tracking, "CLIENT TRACKING ON")];
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        wanted.into_iter().filter(|(wanted, _)| *wanted).map(|(_, text)| words(text)).collect()
    }

    pub fn verification(&self) -> Option<Verify> {
        let verify = || Verify { share: self.verify, reading: self.workload.reading() };
        (self.verify > 0.0).then(verify)
    }

    /// Usage failures in the words of `terms`.
    pub fn check(&self, terms: &Terms, protocol: Protocol) -> Result<(), Failure> {
        let Terms { clients, threads, pipeline, keys, bytes, length, resp3, tracking } = terms;
        let cannot_be_0 = |name: &str, least: &str| {
            Err(Failure::usage(format!("{name} cannot be 0"), format!("give at least 1 {least}")))
        };
        match (self.clients, self.threads, self.pipeline) {
            (0, ..) => return cannot_be_0(clients, "client"),
            (_, 0, _) => return cannot_be_0(threads, "thread"),
            (.., 0) => return cannot_be_0(pipeline, "request per batch"),
            _ => {}
        }
        let empty = matches!(self.length, Length::Requests(0) | Length::Lasting(Duration::ZERO));
        require(!empty, "the window is empty", &format!("give {length} above 0"))?;
        self.check_mode(threads, protocol)?;
        self.check_warmup()?;
        require(
            !self.tracking || self.resp3,
            &format!("{tracking} is given without {resp3}, which invalidations need"),
            "give both",
        )?;
        require(
            protocol == Protocol::Resp || !self.resp3,
            &format!("{resp3} is given for memcached"),
            "leave it out",
        )?;
        self.check_schedule(length)?;
        require(
            self.threads <= MOST_THREADS,
            &format!("{threads} is above {MOST_THREADS}"),
            "give no more than there are CPUs",
        )?;
        require(
            self.threads <= self.clients,
            &format!("there are more {threads} than clients"),
            &format!("lower {threads} or raise {clients}"),
        )?;
        require(
            (1..=digits::LIMIT).contains(&self.keys.count),
            &format!("{keys} is outside of 1 to 10^12"),
            "keys have twelve digits",
        )?;
        require(
            self.verify == 0.0 || (self.mode.sends() && self.workload.reading().contains(&true)),
            "verify is given where no values are read",
            "leave it out, or read values with GET",
        )?;
        require(
            self.expect.hit_rate.is_none() || self.workload.looks_for_keys(),
            "expect.hit_rate is given where no keys are looked for",
            "leave it out, or read values with GET",
        )?;
        let (largest, limit) = match protocol {
            Protocol::Resp => (LARGEST_VALUE, "512 MiB"),
            Protocol::Memcached => (LARGEST_MEMCACHED_VALUE, "16 MiB"),
        };
        require(
            self.values.largest() <= largest,
            &format!("{bytes} is above {limit}"),
            "give smaller values",
        )?;
        require(
            fits(self.batch_bytes(), self.clients),
            &format!("the requests of {clients} x {pipeline} x {bytes} do not fit into 4 GiB"),
            "lower one of them",
        )
    }

    fn check_warmup(&self) -> Result<(), Failure> {
        let Some(most) = self.warmup_most else { return Ok(()) };
        require(
            matches!(self.mode, Mode::Closed | Mode::Open { .. }),
            &format!("a warm-up until the load is steady is asked for in mode {}", self.mode.name()),
            "give it a fixed time: a closed loop, or an open one at one rate, can be waited for",
        )?;
        require(
            most >= self.warmup,
            &format!("a warm-up of at least {:?} cannot end within {most:?}", self.warmup),
            "raise the most or lower the least",
        )
    }

    fn check_schedule(&self, length: &str) -> Result<(), Failure> {
        let (law, lowest) = match &self.mode {
            Mode::Open { rate, arrivals } => (*arrivals, *rate),
            Mode::Sweep { rates, arrivals } => {
                let twice = rates.iter().enumerate().find(|(at, rate)| rates[..*at].contains(rate));
                if let Some((_, rate)) = twice {
                    return Err(Failure::usage(
                        format!("{rate} is a rate of the sweep twice"),
                        "give it once",
                    ));
                }
                (*arrivals, rates.iter().copied().fold(f64::INFINITY, f64::min))
            }
            Mode::Search { arrivals, .. } => (*arrivals, f64::INFINITY),
            Mode::Closed => (Law::Fixed, f64::INFINITY),
            _ => {
                let cause = format!("a probe in mode {}", self.mode.name());
                return require(self.probe.is_none(), &cause, "leave it out");
            }
        };
        let Length::Requests(requests) = self.length else { return Ok(()) };
        let remedy = format!("of {length}, give the time");
        require(self.probe.is_none(), "a probe beside a number of requests", &remedy)?;
        require(!matches!(self.mode, Mode::Search { .. }), "a search by a number of requests", &remedy)?;
        require(law == Law::Fixed, "Poisson arrivals are no exact count of requests", &remedy)?;
        require(
            requests as f64 / lowest <= LONGEST_S,
            &format!("{requests} requests take more than a day at {lowest} per second"),
            "lower their number or raise the rate",
        )
    }

    fn check_mode(&self, threads: &str, protocol: Protocol) -> Result<(), Failure> {
        let (alone, timed) = (self.threads == 1, matches!(self.length, Length::Lasting(_)));
        require(
            self.mode != Mode::Idle || (alone && timed),
            &format!("mode idle is given with {threads} or with a number of requests"),
            "idle connections are held by one thread, for a time",
        )?;
        require(
            !self.mode.has_own_commands() || protocol == Protocol::Resp,
            &format!("mode {} is given for memcached", self.mode.name()),
            "it is for RESP",
        )?;
        match &self.mode {
            Mode::PubSub(setting) => setting.check(self.values.largest()),
            Mode::Blocking(setting) => {
                require(alone, &format!("mode blocking is given with {threads}"), "it has one thread")?;
                setting.check()
            }
            _ => Ok(()),
        }
    }

    /// About the bytes of the longest batch of a connection.
    fn batch_bytes(&self) -> usize {
        // The seed has no part in the length.
        let script_bytes = self.workload.speech(&self.places(true), 0).script().batch_bytes(self.pipeline);
        script_bytes.max(self.values.largest().saturating_mul(self.pipeline))
    }
}

impl Length {
    pub const DEFAULT: Length = Length::Lasting(Duration::from_secs(5));

    /// A count is exact: unless a warm-up is asked for, the server sees no request beyond it.
    pub fn usual_warmup(self) -> Duration {
        match self {
            Length::Requests(_) => Duration::ZERO,
            Length::Lasting(_) => Duration::from_millis(500),
        }
    }
}
