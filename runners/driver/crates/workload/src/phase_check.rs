//! Checks of the settings of a phase.

use std::time::Duration;

use crate::limits::{MOST_THREADS, fits};
use crate::mode::Mode;
use crate::phase::{Length, Phase};
use crate::protocol_name::ProtocolName;
use engine::schedule::ArrivalProcess;
use generator::digits;
use protocol::template::{REPLY, SHORTEST_KEY};
use text::checks::require;
use text::failure::Failure;

const LARGEST_VALUE: usize = 512 * 1024 * 1024;
/// Requests are kept whole in memory, up to ten values in each.
const LARGEST_MEMCACHED_VALUE: usize = 16 * 1024 * 1024;
const LONGEST_KEY: usize = 64 * 1024;
const LONGEST_MEMCACHED_KEY: usize = 250;
/// No window is longer.
const LONGEST_S: f64 = 86_400.0;

/// What settings are called where they were given.
pub struct SettingNames {
    pub clients: &'static str,
    pub threads: &'static str,
    pub pipeline: &'static str,
    pub keys: &'static str,
    pub bytes: &'static str,
    pub length: &'static str,
    pub resp3: &'static str,
    pub tracking: &'static str,
}

impl Phase {
    /// Usage failures, in which settings are called as `names` says.
    pub fn check(&self, names: &SettingNames, protocol: ProtocolName) -> Result<(), Failure> {
        self.check_counts(names)?;
        self.check_mode(names.threads, protocol)?;
        self.check_warmup()?;
        self.check_session(names, protocol)?;
        self.check_schedule(names.length)?;
        self.check_threads(names)?;
        self.check_keys(names)?;
        self.check_key_bytes(protocol)?;
        self.check_bytes(names, protocol)?;
        self.check_replies(names.pipeline)?;
        self.check_silences()
    }

    /// What a reply names is known only when it is there.
    fn check_replies(&self, pipeline: &str) -> Result<(), Failure> {
        self.workload.check_replies()?;
        if self.workload.reply_name() != Some(REPLY) {
            return Ok(());
        }
        require(
            self.pipeline == 1,
            &format!("{pipeline} is above 1 beside __reply__, which waits for the reply before it"),
            &format!("lower {pipeline}, and raise the number of clients"),
        )?;
        require(
            self.verify == 0.0 && !self.workload.silences().unwrap_or(true),
            "__reply__ is given beside verify or CLIENT REPLY OFF",
            "leave them out",
        )
    }

    /// Replies that are turned off must come again, and cannot be verified.
    fn check_silences(&self) -> Result<(), Failure> {
        let silences = self.workload.silences().map_err(|(cause, remedy)| Failure::usage(cause, remedy))?;
        require(
            !silences || (self.verify == 0.0 && self.mode.sends()),
            "CLIENT REPLY OFF is sent where each reply is needed",
            "leave verify and mode out",
        )
    }

    fn check_counts(&self, names: &SettingNames) -> Result<(), Failure> {
        let counted = [
            (self.clients, names.clients, "client"),
            (self.threads, names.threads, "thread"),
            (self.pipeline, names.pipeline, "request per batch"),
        ];
        for (count, name, unit) in counted {
            require(count > 0, &format!("{name} cannot be 0"), &format!("give at least 1 {unit}"))?;
        }
        let empty = matches!(self.length, Length::Requests(0) | Length::Lasting(Duration::ZERO));
        require(!empty, "the window is empty", &format!("give {} above 0", names.length))
    }

    fn check_session(&self, names: &SettingNames, protocol: ProtocolName) -> Result<(), Failure> {
        let SettingNames { resp3, tracking, .. } = names;
        require(
            !self.tracking || self.resp3,
            &format!("{tracking} is given without {resp3}, which invalidations need"),
            "give both",
        )?;
        require(
            protocol == ProtocolName::Resp || !self.resp3,
            &format!("{resp3} is given for memcached"),
            "leave it out",
        )
    }

    fn check_threads(&self, names: &SettingNames) -> Result<(), Failure> {
        let SettingNames { clients, threads, .. } = names;
        require(
            self.threads <= MOST_THREADS,
            &format!("{threads} is above {MOST_THREADS}"),
            "give no more than there are CPUs",
        )?;
        require(
            self.threads <= self.clients,
            &format!("there are more {threads} than clients"),
            &format!("lower {threads} or raise {clients}"),
        )
    }

    fn check_keys(&self, names: &SettingNames) -> Result<(), Failure> {
        require(
            (1..=digits::LIMIT).contains(&self.keys.count),
            &format!("{} is outside of 1 to 10^12", names.keys),
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
        )
    }

    fn check_key_bytes(&self, protocol: ProtocolName) -> Result<(), Failure> {
        let longest = match protocol {
            ProtocolName::Resp => LONGEST_KEY,
            ProtocolName::Memcached => LONGEST_MEMCACHED_KEY,
        };
        require(
            self.keys.bytes.is_none_or(|bytes| (SHORTEST_KEY..=longest).contains(&bytes)),
            &format!("keys cannot have {} bytes", self.keys.bytes.unwrap_or(0)),
            &format!("give {SHORTEST_KEY} to {longest}"),
        )
    }

    fn check_bytes(&self, names: &SettingNames, protocol: ProtocolName) -> Result<(), Failure> {
        let SettingNames { clients, pipeline, bytes, .. } = names;
        let (largest, limit) = match protocol {
            ProtocolName::Resp => (LARGEST_VALUE, "512 MiB"),
            ProtocolName::Memcached => (LARGEST_MEMCACHED_VALUE, "16 MiB"),
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
        let (process, lowest) = match &self.mode {
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
            Mode::Search { arrivals, .. } | Mode::Ramp { arrivals, .. } => (*arrivals, f64::INFINITY),
            Mode::Closed => (ArrivalProcess::Fixed, f64::INFINITY),
            _ => {
                let cause = format!("a probe in mode {}", self.mode.name());
                return require(self.probe.is_none(), &cause, "leave it out");
            }
        };
        let Length::Requests(requests) = self.length else { return Ok(()) };
        let remedy = format!("of {length}, give the time");
        require(self.probe.is_none(), "a probe beside a number of requests", &remedy)?;
        require(!matches!(self.mode, Mode::Search { .. }), "a search by a number of requests", &remedy)?;
        require(!matches!(self.mode, Mode::Ramp { .. }), "a ramp by a number of requests", &remedy)?;
        require(
            process == ArrivalProcess::Fixed,
            "Poisson arrivals are no exact count of requests",
            &remedy,
        )?;
        require(
            requests as f64 / lowest <= LONGEST_S,
            &format!("{requests} requests take more than a day at {lowest} per second"),
            "lower their number or raise the rate",
        )
    }

    fn check_mode(&self, threads: &str, protocol: ProtocolName) -> Result<(), Failure> {
        let (alone, timed) = (self.threads == 1, matches!(self.length, Length::Lasting(_)));
        require(
            self.mode != Mode::Idle || (alone && timed),
            &format!("mode idle is given with {threads} or with a number of requests"),
            "idle connections are held by one thread, for a time",
        )?;
        require(
            !self.mode.has_own_commands()
                || protocol == ProtocolName::Resp
                || matches!(self.mode, Mode::Replay(_)),
            &format!("mode {} is given for memcached", self.mode.name()),
            "it is for RESP",
        )?;
        match &self.mode {
            Mode::Ramp { setting, .. } => setting.check(self.clients),
            Mode::PubSub(setting) => setting.check(self.values.largest()),
            Mode::Blocking(setting) => {
                require(alone, &format!("mode blocking is given with {threads}"), "it has one thread")?;
                setting.check()
            }
            Mode::Replay(setting) => {
                require(
                    !self.prefill,
                    "a prefill is given for a recording",
                    "fill the server by a phase before it",
                )?;
                require(self.warmup.is_zero(), "a warm-up is given for a recording", "leave it out")?;
                setting.check()
            }
            _ => Ok(()),
        }
    }

    /// About the bytes of the longest batch of a connection.
    fn batch_bytes(&self) -> usize {
        // The seed has no part in the length.
        let script_bytes = self.workload.traffic(&self.places(true), 0).script().batch_bytes(self.pipeline);
        script_bytes.max(self.values.largest().saturating_mul(self.pipeline))
    }
}
