//! When requests are sent, or what else connections do.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::phase::Length;
use crate::protocol_name::ProtocolName;
use crate::ramp::{self, Quantity};
use crate::workload::Workload;
use engine::schedule::ArrivalProcess;
use modes::{blocking, pubsub, replay};
use text::checks::require;
use text::failure::Failure;

/// When requests are sent, or what else connections do.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// After the replies to those before.
    Closed,
    /// On a schedule, `rate` requests per second of all connections together.
    Open {
        rate: f64,
        arrivals: ArrivalProcess,
    },
    /// On a schedule whose rate changes over the window; or a closed loop whose connections change in number.
    Ramp {
        setting: ramp::Setting,
        arrivals: ArrivalProcess,
    },
    /// The highest rate whose latencies keep the limit.
    Search {
        limit: Limit,
        arrivals: ArrivalProcess,
        /// The first rate; a part of what a closed loop draws, if none is given.
        from: Option<f64>,
    },
    /// Each of these rates.
    Sweep {
        rates: Vec<f64>,
        arrivals: ArrivalProcess,
    },
    /// Connections that are open, and silent.
    Idle,
    /// Connections that are opened and closed.
    Churn,
    PubSub(pubsub::Setting),
    /// Clients that wait in the server.
    Blocking(blocking::Setting),
    /// Recorded requests, at their own times or as fast as the server answers.
    Replay(replay::Setting),
}

/// So many percent of the latencies are at most so long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    pub percentile: f64,
    pub us: f64,
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

impl Mode {
    /// Whether its connections send requests again and again.
    pub fn sends(&self) -> bool {
        self.is_one_load() || matches!(self, Mode::Search { .. } | Mode::Sweep { .. })
    }

    /// Whether it is one load from begin to end: a closed loop, or one schedule.
    pub fn is_one_load(&self) -> bool {
        matches!(self, Mode::Closed | Mode::Open { .. } | Mode::Ramp { .. })
    }

    /// Whether the number of connections that send changes.
    pub fn ramps_clients(&self) -> bool {
        matches!(self, Mode::Ramp { setting, .. } if setting.of == Quantity::Clients)
    }

    pub fn name(&self) -> &'static str {
        match self {
            Mode::Closed => "closed",
            Mode::Open { .. } => "open",
            Mode::Ramp { .. } => "ramp",
            Mode::Search { .. } => "search",
            Mode::Sweep { .. } => "sweep",
            Mode::Idle => "idle",
            Mode::Churn => "churn",
            Mode::PubSub(_) => "pubsub",
            Mode::Blocking(_) => "blocking",
            Mode::Replay(_) => "replay",
        }
    }

    /// What is sent when nothing is named, if there is a usual thing.
    pub fn usual_workload(&self, protocol: ProtocolName) -> Option<Workload> {
        let ping = match protocol {
            ProtocolName::Resp => "ping",
            ProtocolName::Memcached => "mn",
        };
        let usual = Workload::named(protocol, ping).ok()?;
        match self {
            Mode::Idle | Mode::Churn => Some(usual),
            Mode::PubSub(setting) => Some(usual.with_name(&setting.publish().to_lowercase())),
            Mode::Blocking(setting) => Some(usual.with_name(setting.name())),
            Mode::Replay(setting) => Some(usual.with_name(&setting.file)),
            _ => None,
        }
    }

    /// How long its window is unless that is given: a recording is played to its end, but no window is longer than a day.
    pub fn usual_length(&self) -> Length {
        match self {
            Mode::Replay(_) => Length::LONGEST,
            _ => Length::DEFAULT,
        }
    }

    /// The warm-up before a window of `length` unless it is given: a recording has none.
    pub fn usual_warmup(&self, length: Length) -> Duration {
        match self {
            Mode::Replay(_) => Duration::ZERO,
            _ => length.usual_warmup(),
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
        matches!(self, Mode::PubSub(_) | Mode::Blocking(_) | Mode::Replay(_))
    }
}
