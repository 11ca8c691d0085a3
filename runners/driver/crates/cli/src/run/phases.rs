//! The phases that the options of a command line stand for.

use crate::redis_benchmark::suite;
use crate::run::names::TERMS;
use crate::run::options::LoadOptions;
use crate::values::named;
use engine::probe::Probe;
use generator::keys::Distribution;
use generator::values::Sizes;
use modes::{blocking, pubsub, replay};
use text::checks::require;
use text::failure::Failure;
use workload::mode::Mode;
use workload::phase::{KeySpace, Length, Phase};
use workload::plan;
use workload::protocol_name::ProtocolName;
use workload::ramp::Quantity;
use workload::workload::Workload;

const KNOWN: &str = "here -t takes ping, set, get, incr";

impl LoadOptions {
    /// One phase per test, all alike; only the first one has a prefill.
    pub fn phases(&self, prefill: bool) -> Result<Vec<Phase>, Failure> {
        let protocol = self.protocol.unwrap_or_default();
        let workload = |name: &str| Workload::named(protocol, &name.to_lowercase());
        let mode = self.loop_mode()?;
        let workloads = match (&self.tests, mode.usual_workload(protocol)) {
            (Some(_), _) if mode.has_own_commands() => {
                return Err(Failure::usage(
                    "-t is given for a mode that has its own commands",
                    "leave it out",
                ));
            }
            (Some(list), _) => {
                check_tests(list, protocol)?;
                list.split(',').map(|name| workload(name.trim())).collect::<Result<_, _>>()?
            }
            (None, Some(usual)) => vec![usual],
            (None, None) => Workload::all(protocol),
        };
        let phase = |(at, workload)| self.phase(workload, &mode, prefill && at == 0);
        let phases: Vec<Phase> = workloads.into_iter().enumerate().map(phase).collect::<Result<_, _>>()?;
        phases.iter().try_for_each(|phase| phase.check(&TERMS, protocol))?;
        plan::check_names(&phases)?;
        Ok(phases)
    }

    fn phase(&self, workload: Workload, mode: &Mode, prefill: bool) -> Result<Phase, Failure> {
        let length = self.length(mode.usual_length())?;
        let usual = Phase::of(workload);
        Ok(Phase {
            clients: self.clients.map_or(usual.clients, |it| it.last.unwrap_or(it.first).max(it.first)),
            threads: self.threads.unwrap_or(usual.threads),
            pipeline: self.pipeline.unwrap_or(usual.pipeline),
            window: self.window.unwrap_or(usual.window),
            keys: KeySpace {
                count: self.keyspace.unwrap_or(usual.keys.count),
                distribution: Distribution::Uniform,
                bytes: self.key_bytes,
            },
            values: self.value_bytes.map_or(usual.values.clone(), Sizes::Fixed),
            prefill,
            resp3: self.resp3,
            tracking: self.tracking,
            warmup: self.warmup.unwrap_or(mode.usual_warmup(length)),
            warmup_most: self.warmup_most,
            length,
            mode: mode.clone(),
            probe: self.probe()?,
            ..usual
        })
    }

    /// `--mode`, or what the options of a schedule ask for.
    fn loop_mode(&self) -> Result<Mode, Failure> {
        if let Some(file) = &self.replay {
            return self.replayed(file);
        }
        require(
            self.speed.is_none() && self.format.is_none(),
            "--speed or --format is given without a recording",
            "give --replay FILE",
        )?;
        let mode = self.named_mode(self.mode.as_deref().unwrap_or("closed"))?;
        let scheduled = self.search.is_some() || self.sweep.is_some() || self.arrivals.is_some();
        require(
            mode == Mode::Closed || !(scheduled || self.rate.is_some() && !mode.has_own_commands()),
            "--mode is given beside --rate, --arrivals, --search or --sweep",
            "leave it out",
        )?;
        let arrivals = self.arrivals.unwrap_or_default();
        if let Some(setting) = self.ramp()? {
            let (cause, is_unfit) = match setting.of {
                Quantity::Rate => {
                    ("a rate A..B is given beside --search, --sweep or --mode", mode.has_own_commands())
                }
                Quantity::Clients => (
                    "-c A..B is given beside --search, --sweep, --arrivals or --mode",
                    mode != Mode::Closed || self.arrivals.is_some(),
                ),
            };
            let is_alone = !is_unfit && self.search.is_none() && self.sweep.is_none();
            require(is_alone, cause, "give one of them")?;
            return Ok(Mode::Ramp { setting, arrivals });
        }
        match (self.rate.map(|rate| rate.first), &self.search, &self.sweep) {
            (rate, None, None) if mode.has_own_commands() => Ok(mode.at_rate(rate)),
            (None, None, None) => {
                require(self.arrivals.is_none(), "--arrivals is given without a rate", "give --rate")?;
                Ok(mode)
            }
            (Some(rate), None, None) => Ok(Mode::Open { rate, arrivals }),
            (from, Some(limit), None) => Ok(Mode::Search { limit: *limit, arrivals, from }),
            (None, None, Some(rates)) => Ok(Mode::Sweep { rates: rates.clone(), arrivals }),
            _ => Err(Failure::usage("--sweep is given beside --rate or --search", "give one of them")),
        }
    }

    /// The mode that replays the recording in `file`.
    fn replayed(&self, file: &str) -> Result<Mode, Failure> {
        let others = [
            ("--mode", self.mode.is_some()),
            ("--rate", self.rate.is_some()),
            ("-c A..B", self.clients.is_some_and(|clients| clients.last.is_some())),
            ("--arrivals", self.arrivals.is_some()),
            ("--sweep", self.sweep.is_some()),
            ("--search", self.search.is_some()),
        ];
        if let Some((option, _)) = others.iter().find(|(_, given)| *given) {
            return Err(Failure::usage(
                format!("{option} is given beside --replay"),
                "leave it out: --speed says how fast a recording is played",
            ));
        }
        let speed = self.speed.unwrap_or_default();
        replay::Setting::of(file, self.format, speed).map(Mode::Replay)
    }

    /// `--mode`, with its settings.
    fn named_mode(&self, name: &str) -> Result<Mode, Failure> {
        let settings = [
            ("--publishers", self.publishers.is_some(), "pubsub"),
            ("--channels", self.channels.is_some(), "pubsub"),
            ("--subscribe", self.subscribe.is_some(), "pubsub"),
            ("--pop", self.pop.is_some(), "blocking"),
        ];
        if let Some((option, _, mode)) = settings.iter().find(|(_, given, mode)| *given && *mode != name) {
            return Err(Failure::usage(
                format!("{option} is given without its mode"),
                format!("give --mode {mode}"),
            ));
        }
        match name {
            "closed" => Ok(Mode::Closed),
            "idle" => Ok(Mode::Idle),
            "churn" => Ok(Mode::Churn),
            "pubsub" => self.pubsub().map(Mode::PubSub),
            "blocking" => self.blocking().map(Mode::Blocking),
            _ => Err(Failure::usage(
                format!("--mode cannot be '{name}'"),
                "give closed, idle, churn, pubsub or blocking",
            )),
        }
    }

    fn probe(&self) -> Result<Option<Probe>, Failure> {
        if (self.probe_clients, self.probe_rate) == (None, None) {
            return Ok(None);
        }
        let usual = Probe::default();
        let probe = Probe {
            clients: self.probe_clients.unwrap_or(usual.clients),
            rate: self.probe_rate.unwrap_or(usual.rate),
        };
        probe.check("--probe-clients", "--probe-rate").map(Some)
    }

    fn pubsub(&self) -> Result<pubsub::Setting, Failure> {
        let usual = pubsub::Setting::default();
        let subscribe = |name: &String| named("--subscribe", name, "channels, patterns or shards");
        Ok(pubsub::Setting {
            publishers: self.publishers.unwrap_or(usual.publishers),
            channels: self.channels.unwrap_or(usual.channels),
            subscribe: self.subscribe.as_ref().map_or(Ok(usual.subscribe), subscribe)?,
            ..usual
        })
    }

    fn blocking(&self) -> Result<blocking::Setting, Failure> {
        let usual = blocking::Setting::default();
        let pop = |name: &String| named("--pop", name, "blpop, bzpopmin or xreadgroup");
        Ok(blocking::Setting { command: self.pop.as_ref().map_or(Ok(usual.command), pop)?, ..usual })
    }

    fn length(&self, usual: Length) -> Result<Length, Failure> {
        match (self.duration, self.requests) {
            (Some(_), Some(_)) => Err(Failure::usage("-n and --duration are both given", "give one of them")),
            (None, Some(requests)) => Ok(Length::Requests(requests)),
            (Some(duration), None) => Ok(Length::Lasting(duration)),
            (None, None) => Ok(usual),
        }
    }
}

/// Refuse what looks like a mix and is a list, and say where tests of redis-benchmark are.
fn check_tests(list: &str, protocol: ProtocolName) -> Result<(), Failure> {
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    let weight = |name: &str| {
        name.split_once(':').filter(|_| !name.contains('+')).map(|(_, weight)| weight.to_owned())
    };
    // A weight of 1 repeats a test under another name, unless every test has a weight.
    let have_all = names.iter().all(|name| weight(name).is_some());
    let is_weighted = |name: &&str| weight(name).is_some_and(|weight| have_all || weight != "1");
    if let Some(weighted) = names.iter().find(|name| names.len() > 1 && is_weighted(name)) {
        return Err(Failure::usage(
            format!("-t {list} names {} tests, and {weighted} alone has no use for a weight", names.len()),
            format!("write {} for one mix", names.join("+")),
        ));
    }
    let elsewhere = |name: &&&str| {
        let name = name.to_lowercase();
        Workload::named(protocol, &name).is_err()
            && suite::TESTS.iter().any(|test| test.names.contains(&&*name))
    };
    match names.iter().find(elsewhere).filter(|_| protocol == ProtocolName::Resp) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(
            format!("there is no test '{name}' in `speedbench run`"),
            format!(
                "`speedbench redis-benchmark -t {name}` has it; or write its command into a file for --workload; {KNOWN}"
            ),
        )),
    }
}
