//! The plan that the options of memtier_benchmark stand for.

use std::time::Duration;

use crate::memtier_benchmark::options::{MOST_WEIGHT, Options, TERMS, TIMEOUT, wrong};
use engine::job::Window;
use engine::schedule::{Law, check_rate};
use generator::keys::Distribution;
use network::target::{self, Address, Target};
use text::checks::require;
use text::failure::Failure;
use text::words;
use workload::memcached::suite;
use workload::mode::Mode;
use workload::order::Order;
use workload::phase::{KeySpace, Length, Phase};
use workload::plan::{Output, Plan};
use workload::protocol_name::Protocol;
use workload::source::Source;
use workload::workload::{Item, Workload};

impl Options {
    pub fn plan(&self, argv: Vec<String>) -> Result<Plan, Failure> {
        let connections = self.clients.saturating_mul(self.threads);
        let keys = self.key_space()?;
        let length = match (self.test_time, self.requests) {
            (Some(time), _) => Length::Lasting(time),
            (None, Some(each)) => Length::Requests(each.saturating_mul(connections as u64)),
            (None, None) => Length::Requests(keys.count),
        };
        let mode = match self.rate {
            None => Mode::Closed,
            Some(rate) => {
                let rate = check_rate(rate * connections as f64, "--rate-limiting")?;
                Mode::Open { rate, arrivals: Law::Fixed }
            }
        };
        let usual = Phase::of(self.workload()?);
        let phase = Phase {
            clients: connections,
            threads: self.threads,
            pipeline: self.pipeline,
            window: Window::Rolling,
            keys,
            values: self.sizes.clone(),
            ttl: self.ttl,
            warmup: Duration::ZERO,
            length,
            mode,
            resp3: self.resp3,
            ..usual
        };
        phase.check(&TERMS, self.protocol)?;
        let plan = Plan {
            argv,
            protocol: self.protocol,
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
        let port = self.port.unwrap_or(self.protocol.port());
        let address = match &self.socket {
            Some(path) => Address::unix(path)?,
            None => Address::Tcp { host: self.host.clone(), port },
        };
        let auth = |login: &String| match login.split_once(':') {
            Some((user, password)) => target::auth(Some(user), password),
            None => target::auth(None, login),
        };
        require(
            self.login.is_none() || self.protocol == Protocol::Resp,
            "-a is given for memcached",
            "leave it out",
        )?;
        Ok(Target { address, tls: None, greeting: self.login.iter().map(auth).collect(), timeout: TIMEOUT })
    }

    /// Sets and gets in their ratio, or the commands that are given.
    fn workload(&self) -> Result<Workload, Failure> {
        let counts = match self.commands.is_empty() {
            true => self.ratio.to_vec(),
            false => self.commands.iter().map(|(_, ratio)| *ratio).collect(),
        };
        let total = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)).unwrap_or(u64::MAX);
        require(
            (1..=MOST_WEIGHT).contains(&total),
            "the ratios add up to 0 or more than 65535",
            "give smaller ones",
        )?;
        match self.protocol {
            Protocol::Resp => {
                let words = self.requests_words()?;
                let item = |(words, count): (Vec<Vec<u8>>, u64)| {
                    let name = String::from_utf8_lossy(&words[0]).to_lowercase();
                    Item { name, source: Source::Request(words), count }
                };
                let items = words.into_iter().zip(counts).filter(|(_, count)| *count > 0).map(item);
                Ok(Workload::of(items.collect(), Order::Mix))
            }
            Protocol::Memcached => {
                require(self.commands.is_empty(), "--command is given for memcache_text", "give --ratio")?;
                require(
                    self.prefix.is_none(),
                    "--key-prefix is given for memcache_text",
                    "keys are key:N there",
                )?;
                let tests = ["set", "get"].into_iter().zip(counts).filter(|(_, count)| *count > 0);
                let item = |(name, count): (&str, u64)| {
                    Ok(Item { name: name.to_owned(), source: suite::asked(name)?, count })
                };
                Ok(Workload::of_memcached(tests.map(item).collect::<Result<_, Failure>>()?, Order::Mix))
            }
        }
    }

    fn requests_words(&self) -> Result<Vec<Vec<Vec<u8>>>, Failure> {
        let key = format!("{}__key__", self.prefix.as_deref().unwrap_or("memtier-"));
        if self.commands.is_empty() {
            let end = if self.ttl.is_some() { ["EX", "__ttl__"].as_slice() } else { &[] };
            let set = [&["SET", &key, "__data__"], end].concat();
            let bytes = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
            return Ok(vec![bytes(&set), bytes(&["GET", &key])]);
        }
        let cut = |(text, _): &(String, u64)| {
            let words = words::split(&text.replace("__key__", &key)).filter(|words| !words.is_empty());
            words.ok_or_else(|| wrong("command", text))
        };
        self.commands.iter().map(cut).collect()
    }

    fn key_space(&self) -> Result<KeySpace, Failure> {
        let [least, most] = self.keys;
        require(least <= most, "--key-maximum is below --key-minimum", "give a greater one")?;
        let count = (most - least).saturating_add(1);
        let share = |keys: f64| keys / count as f64;
        let deviation = self.deviation.map_or(1.0 / 6.0, share);
        let mean = self.median.map_or(0.5, |median| share(median - least as f64));
        let fits = deviation > 0.0 && deviation <= 1.0 && (0.0..=1.0).contains(&mean);
        require(
            fits && self.exponent > 0.0 && self.exponent <= 10.0,
            "--key-stddev, --key-median or --key-zipf-exp does not fit the range of keys",
            "give keys of the range, and an exponent above 0",
        )?;
        let distribution = match self.pattern {
            'S' => Distribution::Sequential,
            'P' => Distribution::Parts,
            'G' => Distribution::Gaussian { mean, deviation },
            'Z' => Distribution::Zipf { exponent: self.exponent },
            _ => Distribution::Uniform,
        };
        Ok(KeySpace { count, distribution })
    }
}
