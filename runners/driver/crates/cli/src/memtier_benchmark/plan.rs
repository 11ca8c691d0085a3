//! The plan that the options of memtier_benchmark stand for.

use std::time::Duration;

use crate::arguments::{Given, cannot_be};
use crate::memtier_benchmark::options::Options;
use crate::memtier_benchmark::values::Requests;
use engine::job::Window;
use engine::schedule::{ArrivalProcess, check_rate};
use generator::keys::Distribution;
use network::sources::Sources;
use network::target::{self, Address, Target};
use text::checks::require;
use text::failure::Failure;
use text::words;
use workload::memcached::suite;
use workload::mode::Mode;
use workload::order::Order;
use workload::phase::{KeySpace, Length, Phase};
use workload::phase_check::SettingNames;
use workload::plan::{Output, Plan};
use workload::protocol_name::ProtocolName;
use workload::source::Source;
use workload::workload::{Item, Workload};

const TIMEOUT: Duration = Duration::from_secs(10);
const MOST_WEIGHT: u64 = 65_535;

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
    /// The plan that the options stand for; `argv` is the command line as it may be published.
    pub fn plan(&self, given: &Given, argv: Vec<String>) -> Result<Plan, Failure> {
        let load = &self.load;
        let protocol = self.server.protocol;
        let connections = load.clients.saturating_mul(load.threads);
        let keys = self.key_space()?;
        let length = match (load.test_time, load.requests) {
            (Some(time), _) => Length::Lasting(time),
            (None, Requests::OfEachConnection(each)) => {
                Length::Requests(each.saturating_mul(connections as u64))
            }
            (None, Requests::AllKeys) => Length::Requests(keys.count),
        };
        let mode = match load.rate {
            None => Mode::Closed,
            Some(rate) => {
                let rate = check_rate(rate * connections as f64, "--rate-limiting")?;
                Mode::Open { rate, arrivals: ArrivalProcess::Fixed }
            }
        };
        let usual = Phase::of(self.workload(&load.commands(given)?)?);
        let phase = Phase {
            clients: connections,
            threads: load.threads,
            pipeline: load.pipeline,
            window: Window::Rolling,
            keys,
            values: self.data.sizes(),
            ttl: self.data.ttl,
            warmup: Duration::ZERO,
            length,
            mode,
            resp3: protocol.resp3,
            ..usual
        };
        phase.check(&NAMES, protocol.name)?;
        let plan = Plan {
            argv,
            protocol: protocol.name,
            target: self.target()?,
            database: 0,
            cluster: false,
            seed: 1,
            overwrites: false,
            cpus: Vec::new(),
            server_pid: None,
            server_events: Vec::new(),
            slice_ms: 100,
            allow_errors: false,
            output: Output::Table,
            hdr_log: None,
            phases: vec![phase],
        };
        plan.check()?;
        Ok(plan)
    }

    fn target(&self) -> Result<Target, Failure> {
        let server = &self.server;
        let port = server.port.unwrap_or(server.protocol.name.port());
        let address = match &server.socket {
            Some(path) => Address::unix(path)?,
            None => Address::Tcp { host: server.host.clone(), port },
        };
        let auth = |login: &String| match login.split_once(':') {
            Some((user, password)) => target::auth(Some(user), password),
            None => target::auth(None, login),
        };
        require(
            server.login.is_none() || server.protocol.name == ProtocolName::Resp,
            "-a is given for memcached",
            "leave it out",
        )?;
        Ok(Target {
            address,
            tls: None,
            greeting: server.login.iter().map(auth).collect(),
            timeout: TIMEOUT,
            sources: Sources::default(),
        })
    }

    /// Sets and gets in their ratio, or `commands` with theirs.
    fn workload(&self, commands: &[(String, u64)]) -> Result<Workload, Failure> {
        let counts = match commands {
            [] => self.load.ratio.to_vec(),
            _ => commands.iter().map(|(_, ratio)| *ratio).collect(),
        };
        let total = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)).unwrap_or(u64::MAX);
        require(
            (1..=MOST_WEIGHT).contains(&total),
            "the ratios add up to 0 or more than 65535",
            "give smaller ones",
        )?;
        match self.server.protocol.name {
            ProtocolName::Resp => self.of_resp(commands, counts),
            ProtocolName::Memcached => {
                require(commands.is_empty(), "--command is given for memcache_text", "give --ratio")?;
                self.of_memcached(counts)
            }
        }
    }

    fn of_resp(&self, commands: &[(String, u64)], counts: Vec<u64>) -> Result<Workload, Failure> {
        let requests = self.requests(commands)?;
        let item = |(words, count): (Vec<Vec<u8>>, u64)| {
            let name = String::from_utf8_lossy(&words[0]).to_lowercase();
            Item { name, source: Source::Request(words), count }
        };
        let items = requests.into_iter().zip(counts).filter(|(_, count)| *count > 0).map(item);
        Ok(Workload::of(items.collect(), Order::Mix))
    }

    fn of_memcached(&self, counts: Vec<u64>) -> Result<Workload, Failure> {
        require(
            self.data.prefix.is_none(),
            "--key-prefix is given for memcache_text",
            "keys are key:N there",
        )?;
        let tests = ["set", "get"].into_iter().zip(counts).filter(|(_, count)| *count > 0);
        let item = |(name, count): (&str, u64)| {
            Ok(Item { name: name.to_owned(), source: suite::find_test(name)?, count })
        };
        Ok(Workload::of_memcached(tests.map(item).collect::<Result<_, Failure>>()?, Order::Mix))
    }

    /// The words of each command.
    fn requests(&self, commands: &[(String, u64)]) -> Result<Vec<Vec<Vec<u8>>>, Failure> {
        let key = format!("{}__key__", self.data.prefix.as_deref().unwrap_or("memtier-"));
        if commands.is_empty() {
            let end = if self.data.ttl.is_some() { ["EX", "__ttl__"].as_slice() } else { &[] };
            let set = [&["SET", &key, "__data__"], end].concat();
            let bytes = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
            return Ok(vec![bytes(&set), bytes(&["GET", &key])]);
        }
        let cut = |(text, _): &(String, u64)| {
            let words = words::split(&text.replace("__key__", &key)).filter(|words| !words.is_empty());
            words.ok_or_else(|| cannot_be("--command", text, "close its quotes"))
        };
        commands.iter().map(cut).collect()
    }

    fn key_space(&self) -> Result<KeySpace, Failure> {
        let data = &self.data;
        let (least, most) = (data.first_key, data.last_key);
        require(least <= most, "--key-maximum is below --key-minimum", "give a greater one")?;
        let count = (most - least).saturating_add(1);
        let share = |keys: f64| keys / count as f64;
        let deviation = data.deviation.map_or(1.0 / 6.0, share);
        let mean = data.median.map_or(0.5, |median| share(median - least as f64));
        let fits = deviation > 0.0 && deviation <= 1.0 && (0.0..=1.0).contains(&mean);
        require(
            fits && data.exponent > 0.0 && data.exponent <= 10.0,
            "--key-stddev, --key-median or --key-zipf-exp does not fit the range of keys",
            "give keys of the range, and an exponent above 0",
        )?;
        let distribution = match self.load.command_key_pattern.unwrap_or(data.key_pattern) {
            'S' => Distribution::Sequential,
            'P' => Distribution::Parts,
            'G' => Distribution::Gaussian { mean, deviation },
            'Z' => Distribution::Zipf { exponent: data.exponent },
            _ => Distribution::Uniform,
        };
        Ok(KeySpace { count, distribution, bytes: None })
    }
}
