//! The options of memtier_benchmark.

use std::time::Duration;

use clap::{ArgAction, Args};

use crate::arguments::Given;
use crate::memtier_benchmark::import::ImportOptions;
use crate::memtier_benchmark::server_options::ServerOptions;
use crate::memtier_benchmark::statsd::StatsdOptions;
use crate::memtier_benchmark::values::{
    Requests, breakdown, data_size_list, expiry_range, letter, monitor_pattern, one_of_range, pattern,
    percentiles, range, ratio, requests, size_pattern,
};
use crate::reconnecting::ReconnectOptions;
use crate::values::seconds;
use generator::values::{Sizes, Ttl};
use text::checks::require;
use text::failure::Failure;
use workload::protocol_name::ProtocolName;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub server: ServerOptions,
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub reconnect: ReconnectOptions,
    #[command(flatten)]
    pub data: DataOptions,
    #[command(flatten)]
    pub import: ImportOptions,
    #[command(flatten)]
    pub result: ResultOptions,
    #[command(flatten)]
    pub statsd: StatsdOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadOptions {
    /// connections per thread
    #[arg(short = 'c', long, value_name = "N", default_value_t = 50)]
    pub clients: usize,
    /// threads
    #[arg(short = 't', long, value_name = "N", default_value_t = 4)]
    pub threads: usize,
    /// connections per thread at first; there are more after each --step-duration, until there are --clients
    #[arg(long, value_name = "N")]
    pub clients_start: Option<usize>,
    /// so many more
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub clients_step: usize,
    /// seconds
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub step_duration: u64,
    /// of each connection, or allkeys: one for each of its keys
    #[arg(short = 'n', long, value_name = "N", default_value = "10000", value_parser = requests)]
    pub requests: Requests,
    /// seconds instead of -n
    #[arg(long, value_name = "S", value_parser = |text: &str| seconds("--test-time", text))]
    pub test_time: Option<Duration>,
    /// requests in flight of a connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub pipeline: usize,
    /// of each connection: an open loop
    #[arg(long = "rate-limiting", value_name = "RPS")]
    pub rate: Option<f64>,
    /// sets and gets
    #[arg(long, value_name = "SETS:GETS", default_value = "1:10", value_parser = |text: &str| ratio("--ratio", text))]
    pub ratio: [u64; 2],
    /// instead of them, with __key__ and __data__; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub command: Vec<String>,
    /// of the command before it (1)
    #[arg(long, value_name = "N")]
    pub command_ratio: Vec<u64>,
    /// of the command before it (R): see --key-pattern
    #[arg(long, value_name = "LETTER", value_parser = |text: &str| letter("--command-key-pattern", text))]
    pub command_key_pattern: Vec<char>,
    /// go on with the SCAN of --command at the cursor of each reply
    #[arg(long = "scan-incremental-iteration")]
    pub scan_incremental: bool,
    /// begin again after so many requests with a cursor (0: at the end)
    #[arg(long = "scan-incremental-max-iterations", value_name = "N", default_value_t = 0)]
    pub scan_most: u64,
    /// what MONITOR wrote: --command takes __monitor_line1__ or, one after the other, __monitor_line@__
    #[arg(long, value_name = "FILE")]
    pub monitor_input: Option<String>,
    /// S, or R: a random order (S)
    #[arg(long = "monitor-pattern", value_name = "LETTER", default_value = "S", value_parser = monitor_pattern, action = ArgAction::Set)]
    pub monitor_random: bool,
    /// least pause between two connections that a thread opens, us
    #[arg(long = "thread-conn-start-min-jitter-micros", value_name = "US", default_value_t = 0)]
    pub least_jitter_us: u32,
    /// greatest pause between them (0: none)
    #[arg(long = "thread-conn-start-max-jitter-micros", value_name = "US", default_value_t = 0)]
    pub most_jitter_us: u32,
    /// replace a connection after so many requests
    #[arg(long, value_name = "N")]
    pub reconnect_interval: Option<u64>,
    /// get up to so many keys with one MGET
    #[arg(long, value_name = "N")]
    pub multi_key_get: Option<u64>,
    /// sets and WAITs
    #[arg(long, value_name = "SETS:WAITS", value_parser = |text: &str| ratio("--wait-ratio", text))]
    pub wait_ratio: Option<[u64; 2]>,
    /// replicas that WAIT waits for; both ends alike
    #[arg(long = "num-slaves", value_name = "N-N", value_parser = |text: &str| one_of_range("--num-slaves", text))]
    pub replicas: Option<u64>,
    /// ms that WAIT waits; both ends alike
    #[arg(long, value_name = "MS-MS", value_parser = |text: &str| one_of_range("--wait-timeout", text))]
    pub wait_timeout: Option<u64>,
    /// let connections draw keys and values of their own; without it all draw the same
    #[arg(long)]
    pub distinct_client_seed: bool,
    /// without effect: the seed is always the same here
    #[arg(long)]
    randomize: bool,
    /// without effect: values always differ here
    #[arg(short = 'R', long)]
    pub random_data: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Values and keys")]
pub struct DataOptions {
    /// bytes of a value (32)
    #[arg(short = 'd', long, value_name = "BYTES")]
    pub data_size: Option<usize>,
    /// any size of the range
    #[arg(long, value_name = "LEAST-MOST", value_parser = |text: &str| range::<usize>("--data-size-range", text))]
    pub data_size_range: Option<(usize, usize)>,
    /// sizes with weights
    #[arg(long, value_name = "BYTES:WEIGHT,...", value_parser = data_size_list)]
    pub data_size_list: Option<::std::vec::Vec<(usize, u64)>>,
    /// sizes of the range: R, at random, or S, rising with the keys
    #[arg(long = "data-size-pattern", value_name = "LETTER", default_value = "R", value_parser = size_pattern, action = ArgAction::Set)]
    pub sizes_rise: bool,
    /// seconds
    #[arg(long = "expiry-range", value_name = "LEAST-MOST", value_parser = expiry_range)]
    pub ttl: Option<Ttl>,
    /// the begin of each key (memtier-)
    #[arg(long = "key-prefix", value_name = "TEXT")]
    pub prefix: Option<String>,
    /// the first key
    #[arg(long = "key-minimum", value_name = "N", default_value_t = 0)]
    pub first_key: u64,
    /// the last key
    #[arg(long = "key-maximum", value_name = "N", default_value_t = 10_000_000)]
    pub last_key: u64,
    /// R, S, G, Z or P, for sets and for gets
    #[arg(long, value_name = "LETTER:LETTER", default_value = "R:R", value_parser = pattern)]
    pub key_pattern: [char; 2],
    /// standard deviation of pattern G, in keys
    #[arg(long = "key-stddev", value_name = "N")]
    pub deviation: Option<f64>,
    /// median of pattern G
    #[arg(long = "key-median", value_name = "N")]
    pub median: Option<f64>,
    /// exponent of pattern Z
    #[arg(long = "key-zipf-exp", value_name = "S", default_value_t = 1.0)]
    pub exponent: f64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Result")]
pub struct ResultOptions {
    /// write the results here (stdout)
    #[arg(short = 'o', long, value_name = "FILE")]
    pub out_file: Option<String>,
    /// write them as JSON, too
    #[arg(long = "json-out-file", value_name = "FILE")]
    pub json_file: Option<String>,
    /// write what each connection counted to files that begin like this
    #[arg(long, value_name = "PREFIX")]
    pub client_stats: Option<String>,
    /// write histograms of latencies to files that begin like this
    #[arg(long = "hdr-file-prefix", value_name = "PREFIX")]
    pub hdr_prefix: Option<String>,
    /// percentiles of the table
    #[arg(long = "print-percentiles", value_name = "LIST", default_value = "50,99,99.9", value_parser = percentiles)]
    pub percentiles: ::std::vec::Vec<f64>,
    /// runs, of which the best, the worst and the average are shown
    #[arg(short = 'x', long, value_name = "N", default_value_t = 1)]
    pub run_count: u32,
    /// show all runs, too
    #[arg(long)]
    pub print_all_runs: bool,
    /// rows of the results: command, or line for one of each --command
    #[arg(long = "command-stats-breakdown", value_name = "KIND", default_value = "command", value_parser = breakdown, action = ArgAction::Set)]
    pub by_line: bool,
    /// show the configuration before the run
    #[arg(long)]
    pub show_config: bool,
    /// without the percentiles
    #[arg(long)]
    pub hide_histogram: bool,
}

impl DataOptions {
    /// The most specific of the options.
    pub fn sizes(&self) -> Sizes {
        match (&self.data_size_list, self.data_size_range) {
            (Some(list), _) => Sizes::Weighted(list.clone()),
            (None, Some((least, most))) => Sizes::Range(least, most),
            (None, None) => Sizes::Fixed(self.data_size.unwrap_or(32)),
        }
    }
}

impl Options {
    /// What stands before the number of a key.
    pub fn prefix(&self) -> String {
        self.data.prefix.clone().unwrap_or_else(|| "memtier-".to_owned())
    }

    /// Usage failures of options that exclude each other, most of them as in memtier_benchmark.
    pub fn check(&self, given: &Given) -> Result<(), Failure> {
        let (server, load) = (&self.server, &self.load);
        let is = |id: &str| given.has_id(id);
        let resp = server.protocol.name == ProtocolName::Resp;
        let [set, get] = self.data.key_pattern;
        let excluded = [
            (is("requests") && is("test_time"), "--requests and --test-time are both given"),
            (is("command") && is("ratio"), "--ratio is given beside --command, which has --command-ratio"),
            (
                is("command") && is("key_pattern"),
                "--key-pattern is given beside --command, which has --command-key-pattern",
            ),
            (
                is("command") && (is("wait_ratio") || is("multi_key_get")),
                "--wait-ratio or --multi-key-get is given beside --command",
            ),
            ((set == 'P') != (get == 'P'), "--key-pattern has P for sets or gets only"),
            (server.ipv4 && server.ipv6, "-4 and -6 are both given"),
            (server.socket.is_some() && (is("host") || is("port")), "--unix-socket and TCP are both given"),
            (server.cluster && server.socket.is_some(), "--unix-socket is given with --cluster-mode"),
            (server.cluster && is("reconnect_interval"), "--reconnect-interval is given with --cluster-mode"),
            (server.cluster && is("multi_key_get"), "--multi-key-get is given with --cluster-mode"),
            (server.cluster && is("wait_ratio"), "--wait-ratio is given with --cluster-mode"),
            (server.cluster && is("client_stats"), "--client-stats is given with --cluster-mode"),
            (self.data.sizes_rise && is("command"), "--data-size-pattern S is given beside --command"),
            (!resp && server.cluster, "--cluster-mode is given for memcache_text"),
            (!resp && self.database() > 0, "--select-db is given for memcache_text"),
            (!resp && is("multi_key_get"), "--multi-key-get is given for memcache_text"),
            (!resp && is("wait_ratio"), "--wait-ratio is given for memcache_text"),
            (load.monitor_input.is_some() && !is("command"), "--monitor-input is given without --command"),
            (load.monitor_input.is_some() && server.cluster, "--monitor-input is given with --cluster-mode"),
        ];
        let found = excluded.iter().find(|(excluded, _)| *excluded);
        found.map_or(Ok(()), |(_, cause)| Err(Failure::usage(cause, "leave one of them out")))?;
        load.check_stairs(given)?;
        self.import.check(self, &is)?;
        require(
            load.least_jitter_us <= load.most_jitter_us,
            "--thread-conn-start-min-jitter-micros is above --thread-conn-start-max-jitter-micros",
            "give a smaller one",
        )?;
        let at_least_1 = [
            ("--reconnect-interval", load.reconnect_interval),
            ("--multi-key-get", load.multi_key_get),
            ("--run-count", Some(self.result.run_count.into())),
        ];
        for (option, value) in at_least_1 {
            require(value != Some(0), &format!("{option} cannot be 0"), "give at least 1")?;
        }
        require(
            self.uses_tls()
                || [&server.cert, &server.key, &server.cacert, &server.sni] == [&None; 4] && !server.insecure,
            "options of TLS are given without it",
            "give --tls or a rediss:// URI, too",
        )?;
        let waits = load.replicas.is_some() || load.wait_timeout.is_some();
        require(
            !waits || load.wait_ratio.is_some(),
            "--num-slaves or --wait-timeout is given without --wait-ratio",
            "give it, too",
        )
    }

    pub fn database(&self) -> u32 {
        let server = &self.server;
        server.database.or(server.uri.as_ref().and_then(|uri| uri.database)).unwrap_or(0)
    }

    pub fn uses_tls(&self) -> bool {
        self.server.tls || self.server.uri.as_ref().is_some_and(|uri| uri.tls)
    }
}
