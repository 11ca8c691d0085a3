//! The plan that the options of memtier_benchmark stand for.

use std::time::Duration;

use crate::arguments::cannot_be;
use crate::memtier_benchmark::commands::{Command, Commands};
use crate::memtier_benchmark::options::Options;
use crate::memtier_benchmark::values::Requests;
use engine::job::Window;
use engine::recovery::Recovery;
use engine::schedule::{ArrivalProcess, check_rate};
use generator::items::Items;
use generator::keys::Distribution;
use network::sources::Sources;
use network::target::{self, Address, Target};
use network::tls;
use text::checks::require;
use text::failure::Failure;
use workload::memcached::suite;
use workload::mode::Mode;
use workload::order::Order;
use workload::phase::{KeySpace, Length, Phase, PlainKeySpace};
use workload::phase_check::SettingNames;
use workload::plan::{Output, Plan};
use workload::protocol_name::ProtocolName;
use workload::source::Source;
use workload::workload::{Item, Workload};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Before a lost connection is opened again.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

const NAMES: SettingNames = SettingNames {
    clients: "--clients",
    threads: "--threads",
    pipeline: "--pipeline",
    keys: "the number of keys",
    bytes: "--data-size",
    length: "--requests or --test-time",
    resp3: "-P resp3",
    tracking: "",
};

impl Options {
    /// The plan that the options stand for, which may set `items`; `argv` is the command line as it may be published.
    pub fn plan(
        &self,
        commands: &Commands,
        items: Option<&Items>,
        argv: Vec<String>,
    ) -> Result<Plan, Failure> {
        let protocol = self.server.protocol.name;
        let phase = self.phase(commands, items)?;
        phase.check(&NAMES, protocol)?;
        let plan = Plan {
            argv,
            protocol,
            target: self.target()?,
            others: Vec::new(),
            database: self.database(),
            cluster: self.server.cluster,
            seed: 1,
            part: None,
            start_at: None,
            overwrites: false,
            cpus: Vec::new(),
            server_pid: None,
            server_events: Vec::new(),
            slice_ms: 100,
            allow_errors: true,
            recovery: self.reconnect.recovery(self.usual_recovery()),
            output: Output::Table,
            intervals: true,
            hdr_log: None,
            html: None,
            live: false,
            metrics_at: None,
            phases: vec![phase],
        };
        plan.check()?;
        Ok(plan)
    }

    /// Pauses as memtier has them.
    fn usual_recovery(&self) -> Recovery {
        Recovery {
            attempts: None,
            pause: PAUSE.mul_f64(self.reconnect.factor().min(60.0)),
            factor: 1.0,
            longest: LONGEST_PAUSE,
            connect_timeout: TIMEOUT,
        }
    }

    fn phase(&self, commands: &Commands, items: Option<&Items>) -> Result<Phase, Failure> {
        let load = &self.load;
        let connections = load.clients.saturating_mul(load.threads);
        let own_keys = items.filter(|items| items.prefix.is_none());
        let count = own_keys.map_or_else(|| self.key_count(), |items| Ok(items.dump.count()))?;
        let length = match (load.test_time, load.requests) {
            (Some(time), _) => Length::Lasting(time),
            (None, Requests::OfEachConnection(each)) => {
                Length::Requests(each.saturating_mul(connections as u64))
            }
            (None, Requests::AllKeys) if self.has_parts(commands) => Length::Requests(count),
            (None, Requests::AllKeys) => Length::Requests(count.saturating_mul(connections as u64)),
        };
        let mode = match load.rate {
            None => Mode::Closed,
            Some(rate) => {
                let rate = check_rate(rate * connections as f64, "--rate-limiting")?;
                Mode::Open { rate, arrivals: ArrivalProcess::Fixed }
            }
        };
        let distribution = |command: &Command| self.distribution(command.pattern, count);
        let distributions = commands.list.iter().map(distribution).collect::<Result<Vec<_>, _>>()?;
        Ok(Phase {
            clients: connections,
            threads: load.threads,
            pipeline: load.pipeline,
            window: Window::Rolling,
            keys: KeySpace { count, distribution: distributions[0], bytes: None },
            plain_keys: Some(PlainKeySpace { first: self.data.first_key, distributions }),
            values: self.data.sizes(),
            values_rise: self.data.sizes_rise,
            items: items.cloned(),
            ttl: self.data.ttl,
            warmup: Duration::ZERO,
            length,
            mode,
            reconnect_after: load.reconnect_interval,
            stairs: load.stairs(),
            jitter: load.jitter(),
            alike: !load.distinct_client_seed,
            by_client: self.result.client_stats.is_some(),
            resp3: self.server.protocol.resp3,
            ..Phase::of(self.workload(commands)?)
        })
    }

    fn target(&self) -> Result<Target, Failure> {
        let server = &self.server;
        let address = match &server.socket {
            Some(path) => Address::unix(path)?,
            None => Address::Tcp { host: server.place()?, port: server.port() },
        };
        let given = server.login.as_ref().map(|login| match login.split_once(':') {
            Some((user, password)) => target::auth(Some(user), password),
            None => target::auth(None, login),
        });
        let of_uri = server.uri.as_ref().and_then(|uri| uri.login.as_ref());
        let login = given.or(of_uri.map(|login| target::auth(login.user.as_deref(), &login.password)));
        require(
            login.is_none() || server.protocol.name == ProtocolName::Resp,
            "-a is given for memcached",
            "leave it out",
        )?;
        let select = (self.database() > 0 && !server.cluster)
            .then(|| vec!["SELECT".to_owned(), self.database().to_string()]);
        Ok(Target {
            address,
            dialect: server.protocol.name.dialect(),
            tls: self.uses_tls().then(|| self.tls().client()).transpose()?,
            greeting: login.into_iter().chain(select).collect(),
            timeout: TIMEOUT,
            sources: Sources::default(),
            mptcp: false,
        })
    }

    fn tls(&self) -> tls::Settings {
        let server = &self.server;
        tls::Settings {
            sni: server.sni.clone().or_else(|| server.name_beside_address()),
            cacert: server.cacert.clone(),
            insecure: server.insecure,
            cert: server.cert.clone(),
            key: server.key.clone().or(server.cert.clone()),
            version: server.tls_protocols.and_then(|protocols| protocols.0),
            ..tls::Settings::default()
        }
    }

    fn workload(&self, commands: &Commands) -> Result<Workload, Failure> {
        let name = |command: &Command| commands.rows[command.row].to_lowercase();
        match self.server.protocol.name {
            ProtocolName::Resp => {
                let item = |command: &Command| Item {
                    name: name(command),
                    source: match command.sets_item {
                        true => Source::Item(command.words.clone()),
                        false => Source::Request(command.words.clone()),
                    },
                    count: command.weight,
                };
                Ok(Workload::of(commands.list.iter().map(item).collect(), commands.order))
            }
            ProtocolName::Memcached => {
                require(
                    self.data.prefix.is_none(),
                    "--key-prefix is given for memcache_text",
                    "keys are key:N there",
                )?;
                let item = |command: &Command| {
                    let name = name(command);
                    Ok(Item { source: suite::find_test(&name)?, name, count: command.weight })
                };
                let items = commands.list.iter().map(item).collect::<Result<_, Failure>>()?;
                Ok(Workload::of_memcached(items, Order::Decks))
            }
        }
    }

    pub fn key_count(&self) -> Result<u64, Failure> {
        let (least, most) = (self.data.first_key, self.data.last_key);
        require(least <= most, "--key-maximum is below --key-minimum", "give a greater one")?;
        Ok((most - least).saturating_add(1))
    }

    /// Whether each connection has keys of its own.
    fn has_parts(&self, commands: &Commands) -> bool {
        commands.list.iter().all(|command| command.pattern == 'P')
    }

    /// What the letter `pattern` means among `count` keys.
    fn distribution(&self, pattern: char, count: u64) -> Result<Distribution, Failure> {
        let data = &self.data;
        let share = |keys: f64| keys / count as f64;
        let deviation = data.deviation.map_or(1.0 / 6.0, share);
        let mean = data.median.map_or(0.5, |median| share(median - data.first_key as f64));
        let fits = deviation > 0.0 && deviation <= 1.0 && (0.0..=1.0).contains(&mean);
        require(
            fits && data.exponent > 0.0 && data.exponent < 5.0,
            "--key-stddev, --key-median or --key-zipf-exp does not fit the range of keys",
            "give keys of the range, and an exponent between 0 and 5",
        )?;
        match pattern {
            'R' => Ok(Distribution::Uniform),
            'S' => Ok(Distribution::Cycle),
            'P' => Ok(Distribution::Parts),
            'G' => Ok(Distribution::Gaussian { mean, deviation }),
            'Z' => {
                let first = if self.import.has_own_keys() { 1 } else { data.first_key };
                Ok(Distribution::Zipf { exponent: data.exponent, first_rank: Some(first) })
            }
            _ => Err(cannot_be("--key-pattern", &pattern.to_string(), "give R, S, G, Z or P")),
        }
    }
}
