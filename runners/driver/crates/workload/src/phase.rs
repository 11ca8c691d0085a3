//! One load on the server, with a result of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::mode::Mode;
use crate::workload::Workload;
use engine::jitter::Jitter;
use engine::job::{Verify, Window};
use engine::probe::Probe;
use engine::stage::Stage;
use engine::stairs::Stairs;
use generator::items::Items;
use generator::keys::{Distribution, KeyOrder};
use generator::values::{Sizes, Ttl};
use protocol::template::{ItemPlaces, Placeholders, PlainKeys, Value};
use text::units::{NS_PER_MS, ns};

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
    /// Whether sizes of a range rise with the number of the key.
    pub values_rise: bool,
    /// The dump whose items are set, if one is.
    pub items: Option<Items>,
    /// What `__ttl__` stands for.
    pub ttl: Option<Ttl>,
    /// Whether every key is set once before, and counted.
    pub prefill: bool,
    /// The request that sets a key, with the number of the key in it; SET where there is none.
    pub prefill_request: Option<Vec<Vec<u8>>>,
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
    /// Whether connections are opened step by step.
    pub stairs: Option<Stairs>,
    /// The pauses between the connections of a thread that are opened before the load.
    pub jitter: Option<Jitter>,
    /// Whether all connections draw the same keys and values, one after the other.
    pub alike: bool,
    /// Whether each connection is counted by itself, too.
    pub by_client: bool,
    /// A connection is replaced after so many requests.
    pub reconnect_after: Option<u64>,
    /// What `__key__` stands for when its number has no leading zeros.
    pub plain_keys: Option<PlainKeySpace>,
    pub resp3: bool,
    pub tracking: bool,
    /// What its requests depend on; the seed of the run where there is none.
    pub seed: Option<u64>,
}

/// Keys with numbers without leading zeros.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainKeySpace {
    /// The number of the first of the keys.
    pub first: u64,
    /// How often each is asked for, by command.
    pub distributions: Vec<Distribution>,
}

/// How long the window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Lasting(Duration),
    Requests(u64),
}

impl Length {
    /// The number of requests; none if the phase is limited by time.
    pub fn requests(self) -> Option<u64> {
        match self {
            Length::Lasting(_) => None,
            Length::Requests(requests) => Some(requests),
        }
    }
}

/// Keys 0 to `count` - 1, and how often each is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeySpace {
    pub count: u64,
    pub distribution: Distribution,
    /// Bytes of a key of a named test; its usual length if none.
    pub bytes: Option<usize>,
}

/// What should come out; a flag is raised when it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Expect {
    /// Least and greatest share of the keys looked for that were there.
    pub hit_rate: Option<[f64; 2]>,
    /// Keys in the server afterwards.
    pub keys: Option<u64>,
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
            keys: KeySpace { count: 1, distribution: Distribution::Uniform, bytes: None },
            values: Sizes::Fixed(3),
            values_rise: false,
            items: None,
            ttl: None,
            prefill: false,
            prefill_request: None,
            expect: Expect::default(),
            verify: 0.0,
            warmup: Length::DEFAULT.usual_warmup(),
            warmup_most: None,
            length: Length::DEFAULT,
            mode: Mode::Closed,
            probe: None,
            stairs: None,
            jitter: None,
            alike: false,
            by_client: false,
            reconnect_after: None,
            plain_keys: None,
            resp3: false,
            tracking: false,
            seed: None,
        }
    }

    /// What sets its keys before it: the workloads, by the keys of each.
    pub fn fillings(&self) -> BTreeMap<Vec<u8>, Workload> {
        match &self.prefill_request {
            Some(words) => {
                BTreeMap::from([(words[1].clone(), Workload::of_request("prefill", words.clone()))])
            }
            None => {
                let keys = self.workload.string_keys().into_iter();
                keys.map(|key| (key.clone(), Workload::of_set(&key, self.ttl.is_some()))).collect()
            }
        }
    }

    /// What the placeholders of its commands stand for, with `tags` in a cluster.
    pub fn places(&self, tags: bool) -> Placeholders {
        let value = match self.values {
            Sizes::Fixed(bytes) => Value::Drawn(bytes),
            _ => Value::Varying(self.values.largest()),
        };
        let plain_keys = self.plain_keys.as_ref().map(|keys| PlainKeys { first: keys.first, command: 0 });
        let (ttl, key_bytes, reply) = (self.ttl, self.keys.bytes, self.workload.reply_name());
        let items = self.items.as_ref().map(|items| ItemPlaces {
            longest_request: items.longest_request(),
            longest_key: items.longest_key(),
            first: plain_keys.filter(|_| items.prefix.is_some()).map(|keys| keys.first),
            command: 0,
        });
        Placeholders {
            numbers: true,
            tags,
            value,
            ttl,
            plain_keys,
            key_bytes,
            reply,
            items,
            fields: Vec::new(),
        }
    }

    /// The rule of the keys of each command; empty unless they have their own.
    pub fn command_key_orders(&self) -> Vec<KeyOrder> {
        let distributions = self.plain_keys.iter().flat_map(|keys| &keys.distributions);
        distributions.map(|distribution| KeyOrder::of(*distribution, self.keys.count)).collect()
    }

    /// Slices of `slice_ms` in each step of a ramp; none where the rate does not change.
    pub fn step_slices(&self, slice_ms: u64) -> Option<usize> {
        match (&self.mode, self.length) {
            (Mode::Ramp { setting, .. }, Length::Lasting(window)) => {
                Some((ns(window) / u64::from(setting.steps) / (slice_ms * NS_PER_MS)) as usize)
            }
            _ => None,
        }
    }

    /// Threads that have tables of files of their own.
    pub fn threads_with_files(&self) -> usize {
        if self.mode.sends() { self.threads } else { 1 }
    }

    /// The commands with which its connections begin, besides a login.
    pub fn greeting(&self) -> Vec<Vec<String>> {
        let optional = [(self.resp3, "HELLO 3"), (self.tracking, "CLIENT TRACKING ON")];
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        optional.into_iter().filter(|(optional, _)| *optional).map(|(_, text)| words(text)).collect()
    }

    pub fn verification(&self) -> Option<Verify> {
        let verify = || Verify { share: self.verify, reading: self.workload.reading() };
        (self.verify > 0.0).then(verify)
    }
}

impl Length {
    pub const DEFAULT: Length = Length::Lasting(Duration::from_secs(5));
    /// A day.
    pub const LONGEST: Length = Length::Lasting(Duration::from_secs(86_400));

    /// A count is exact: unless a warm-up is asked for, the server sees no request beyond it.
    pub fn usual_warmup(self) -> Duration {
        match self {
            Length::Requests(_) => Duration::ZERO,
            Length::Lasting(_) => Duration::from_millis(500),
        }
    }
}

/// A warm-up of `warmup`, then a window of `length`.
pub fn stages(warmup: Duration, length: Length) -> Vec<Stage> {
    let warmup_ns = ns(warmup);
    match length {
        Length::Lasting(window) => vec![Stage::Timed { warmup_ns, window_ns: ns(window) }],
        Length::Requests(requests) if warmup_ns == 0 => vec![Stage::Exactly { requests }],
        Length::Requests(requests) => {
            vec![Stage::WarmUp { ns: warmup_ns }, Stage::Exactly { requests }]
        }
    }
}
