//! The options of memtier_benchmark.

use std::fmt::Display;
use std::net::ToSocketAddrs;
use std::time::Duration;

use clap::{ArgAction, Args};

use crate::arguments::{Given, cannot_be};
use crate::memtier_benchmark::statsd::Statsd;
use crate::memtier_benchmark::values::{
    Protocol, Requests, TlsProtocols, breakdown, data_size_list, expiry_range, letter, monitor_pattern,
    one_of_range, pattern, percentiles, protocol, range, ratio, requests, size_pattern, tls_protocols,
};
use crate::reconnecting::ReconnectOptions;
use crate::uri::{self, Uri};
use crate::values::seconds;
use generator::values::{Sizes, Ttl};
use text::checks::require;
use text::failure::Failure;
use workload::protocol_name::ProtocolName;

const USUAL_HOST: &str = "localhost";

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
    pub result: ResultOptions,
    #[command(flatten)]
    pub statsd: StatsdOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerOptions {
    /// host name or address (localhost)
    #[arg(short = 'h', long, short_alias = 's', alias = "server", value_name = "HOST")]
    pub host: Option<String>,
    /// port (6379; memcache_text 11211)
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<u16>,
    /// resolve the host to an IPv4 address
    #[arg(short = '4', long)]
    ipv4: bool,
    /// resolve it to an IPv6 address
    #[arg(short = '6', long)]
    ipv6: bool,
    /// path of a unix socket
    #[arg(short = 'S', long = "unix-socket", value_name = "PATH")]
    pub socket: Option<String>,
    /// redis, resp2, resp3 or memcache_text
    #[arg(short = 'P', long, value_name = "NAME", default_value = "redis", value_parser = protocol)]
    pub protocol: Protocol,
    /// PASSWORD or USER:PASSWORD
    #[arg(short = 'a', long = "authenticate", value_name = "LOGIN")]
    pub login: Option<String>,
    /// redis://user:password@host:port/db; rediss:// for TLS; other options take precedence
    #[arg(short = 'u', long, value_name = "URI", value_parser = uri::parse)]
    pub uri: Option<Uri>,
    /// database (0)
    #[arg(long = "select-db", value_name = "DB")]
    pub database: Option<u32>,
    /// spread the load over the masters of a cluster; keys get a hash tag
    #[arg(long = "cluster-mode")]
    pub cluster: bool,
    /// encrypt
    #[arg(long)]
    pub tls: bool,
    /// certificate to show
    #[arg(long, value_name = "FILE")]
    pub cert: Option<String>,
    /// key of the certificate (in the same file)
    #[arg(long, value_name = "FILE")]
    pub key: Option<String>,
    /// certificates to trust, instead of those of the system
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<String>,
    /// trust any certificate
    #[arg(long = "tls-skip-verify")]
    pub insecure: bool,
    /// server name to ask for
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,
    /// versions of TLS: TLSv1.2, TLSv1.3 or both
    #[arg(long, value_name = "LIST", value_parser = tls_protocols)]
    pub tls_protocols: Option<TlsProtocols>,
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
    /// of each connection, or allkeys
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
    command: Vec<String>,
    /// of the command before it (1)
    #[arg(long, value_name = "N")]
    command_ratio: Vec<u64>,
    /// of the command before it (R): see --key-pattern
    #[arg(long, value_name = "LETTER", value_parser = |text: &str| letter("--command-key-pattern", text))]
    command_key_pattern: Vec<char>,
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
    /// without effect: connections always differ here
    #[arg(long)]
    distinct_client_seed: bool,
    /// without effect: see there
    #[arg(long)]
    randomize: bool,
    /// without effect: see there
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
    /// how sizes follow each other: R, at random
    #[arg(long, value_name = "LETTER", value_parser = size_pattern)]
    data_size_pattern: Option<()>,
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

#[derive(Debug, Args)]
#[command(next_help_heading = "StatsD")]
pub struct StatsdOptions {
    /// send metrics there each second, over UDP
    #[arg(long, value_name = "HOST")]
    statsd_host: Option<String>,
    /// port
    #[arg(long, value_name = "PORT", default_value_t = 8125)]
    statsd_port: u16,
    /// the begin of their names
    #[arg(long, value_name = "TEXT", default_value = "memtier")]
    statsd_prefix: String,
    /// the next part of their names
    #[arg(long = "statsd-run-label", value_name = "TEXT", default_value = "default")]
    statsd_label: String,
}

impl StatsdOptions {
    pub fn client(&self) -> Result<Option<Statsd>, Failure> {
        let client =
            |host: &String| Statsd::connect(host, self.statsd_port, &self.statsd_prefix, &self.statsd_label);
        self.statsd_host.as_ref().map(client).transpose()
    }
}

impl ServerOptions {
    pub fn host(&self) -> &str {
        let of_uri = self.uri.as_ref().and_then(|uri| uri.host.as_deref());
        self.host.as_deref().or(of_uri).unwrap_or(USUAL_HOST)
    }

    /// The family of addresses, as the configuration names it.
    pub fn family(&self) -> &'static str {
        match (self.ipv4, self.ipv6) {
            (true, _) => "AF_INET",
            (_, true) => "AF_INET6",
            _ => "Unspecified",
        }
    }

    /// The name that a certificate should have, when the connection is to an address in its place.
    pub fn name_beside_address(&self) -> Option<String> {
        (self.ipv4 || self.ipv6).then(|| self.host().to_owned())
    }

    /// The host to connect to: the name, or its address if one of a family is asked for.
    pub fn place(&self) -> Result<String, Failure> {
        if !self.ipv4 && !self.ipv6 {
            return Ok(self.host().to_owned());
        }
        let addresses = (self.host(), self.port()).to_socket_addrs().into_iter().flatten();
        let mut fitting = addresses.filter(|address| address.is_ipv4() == self.ipv4);
        let address = fitting.next().ok_or_else(|| {
            let family = if self.ipv4 { "IPv4" } else { "IPv6" };
            Failure::run(format!("{} has no {family} address", self.host()), "leave -4 or -6 out")
        })?;
        Ok(address.ip().to_string())
    }

    pub fn port(&self) -> u16 {
        let of_uri = self.uri.as_ref().and_then(|uri| uri.port);
        self.port.or(of_uri).unwrap_or(self.protocol.name.port())
    }

    pub fn has_login(&self) -> bool {
        self.login.is_some() || self.uri.as_ref().is_some_and(|uri| uri.login.is_some())
    }
}

impl LoadOptions {
    /// The texts of `--command`, each with its ratio and pattern: these are of the command before them.
    pub fn texts(&self, given: &Given) -> Result<Vec<Text>, Failure> {
        let places = given.places("command").into_iter();
        let text = |(at, text): (usize, &String)| Text { at, ..Text::of(text, 1) };
        let mut texts: Vec<Text> = places.zip(&self.command).map(text).collect();
        for (at, ratio) in given.places("command_ratio").into_iter().zip(&self.command_ratio) {
            before(&mut texts, at, "--command-ratio", ratio)?.ratio = *ratio;
        }
        for (at, pattern) in given.places("command_key_pattern").into_iter().zip(&self.command_key_pattern) {
            before(&mut texts, at, "--command-key-pattern", pattern)?.pattern = *pattern;
        }
        Ok(texts)
    }
}

/// A command that was given as text.
#[derive(Clone)]
pub struct Text {
    /// Its place on the command line.
    at: usize,
    pub text: String,
    pub ratio: u64,
    pub pattern: char,
}

impl Text {
    pub fn of(text: &str, ratio: u64) -> Text {
        Text { at: 0, text: text.to_owned(), ratio, pattern: 'R' }
    }

    /// Another command in its place.
    pub fn with(&self, text: String, ratio: u64) -> Text {
        Text { text, ratio, ..self.clone() }
    }
}

/// The last of `texts` before place `at`, at which `option` was given.
fn before<'a>(
    texts: &'a mut [Text],
    at: usize,
    option: &str,
    value: impl Display,
) -> Result<&'a mut Text, Failure> {
    let text = texts.iter_mut().rev().find(|text| text.at < at);
    text.ok_or_else(|| cannot_be(option, &value.to_string(), "give --command before it"))
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
            (!resp && server.cluster, "--cluster-mode is given for memcache_text"),
            (!resp && self.database() > 0, "--select-db is given for memcache_text"),
            (!resp && self.uses_tls(), "--tls is given for memcache_text"),
            (!resp && is("multi_key_get"), "--multi-key-get is given for memcache_text"),
            (!resp && is("wait_ratio"), "--wait-ratio is given for memcache_text"),
            (load.monitor_input.is_some() && !is("command"), "--monitor-input is given without --command"),
            (load.monitor_input.is_some() && server.cluster, "--monitor-input is given with --cluster-mode"),
        ];
        let found = excluded.iter().find(|(excluded, _)| *excluded);
        found.map_or(Ok(()), |(_, cause)| Err(Failure::usage(cause, "leave one of them out")))?;
        load.check_stairs(given)?;
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
