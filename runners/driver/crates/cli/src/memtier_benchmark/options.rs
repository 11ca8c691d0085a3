//! The options of memtier_benchmark.

use std::time::Duration;

use clap::Args;

use crate::arguments::{Given, cannot_be};
use crate::memtier_benchmark::values::{
    Protocol, Requests, data_size_list, expiry_range, pattern, protocol, range, ratio, requests,
};
use crate::values::seconds;
use generator::values::{Sizes, Ttl};
use text::failure::Failure;

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub server: ServerOptions,
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub data: DataOptions,
    #[command(flatten)]
    pub result: ResultOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerOptions {
    /// host name or address
    #[arg(
        short = 'h',
        long,
        short_alias = 's',
        alias = "server",
        value_name = "HOST",
        default_value = "localhost"
    )]
    pub host: String,
    /// port (6379; memcache_text 11211)
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<u16>,
    /// path of a unix socket
    #[arg(short = 'S', long = "unix-socket", value_name = "PATH")]
    pub socket: Option<String>,
    /// redis, resp2, resp3 or memcache_text
    #[arg(short = 'P', long, value_name = "NAME", default_value = "redis", value_parser = protocol)]
    pub protocol: Protocol,
    /// PASSWORD or USER:PASSWORD
    #[arg(short = 'a', long = "authenticate", value_name = "LOGIN")]
    pub login: Option<String>,
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
    #[arg(long, value_name = "SETS:GETS", default_value = "1:10", value_parser = ratio)]
    pub ratio: [u64; 2],
    /// instead of them, with __key__ and __data__; may be repeated
    #[arg(long, value_name = "TEXT")]
    command: Vec<String>,
    /// of the command before it (1)
    #[arg(long, value_name = "N")]
    command_ratio: Vec<u64>,
    /// of all commands: see --key-pattern
    #[arg(long, value_name = "LETTER", value_parser = |text: &str| pattern("--command-key-pattern", text))]
    pub command_key_pattern: Option<char>,
    /// without effect: connections always differ here
    #[arg(long)]
    distinct_client_seed: bool,
    /// without effect: see there
    #[arg(long)]
    randomize: bool,
    /// without effect: see there
    #[arg(long)]
    random_data: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Values and keys")]
pub struct DataOptions {
    /// bytes of a value (32)
    #[arg(short = 'd', long, value_name = "BYTES")]
    data_size: Option<usize>,
    /// any size of the range
    #[arg(long, value_name = "LEAST-MOST", value_parser = |text: &str| range::<usize>("--data-size-range", text))]
    data_size_range: Option<(usize, usize)>,
    /// sizes with weights
    #[arg(long, value_name = "BYTES:WEIGHT,...", value_parser = data_size_list)]
    data_size_list: Option<::std::vec::Vec<(usize, u64)>>,
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
    #[arg(
        long,
        value_name = "LETTER:LETTER",
        default_value = "R:R",
        value_parser = |text: &str| pattern("--key-pattern", text)
    )]
    pub key_pattern: char,
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
    /// write the document, too
    #[arg(long = "json-out-file", value_name = "FILE")]
    pub json_file: Option<String>,
    /// without the percentiles
    #[arg(long)]
    pub hide_histogram: bool,
}

impl LoadOptions {
    /// The commands with their ratios: each ratio is that of the command before it.
    pub fn commands(&self, given: &Given) -> Result<Vec<(String, u64)>, Failure> {
        let mut commands: Vec<(usize, String, u64)> = given
            .places("command")
            .into_iter()
            .zip(&self.command)
            .map(|(at, text)| (at, text.clone(), 1))
            .collect();
        for (place, ratio) in given.places("command_ratio").into_iter().zip(&self.command_ratio) {
            let before = commands.iter_mut().rev().find(|(at, ..)| *at < place);
            let (_, _, counted) = before.ok_or_else(|| {
                cannot_be("--command-ratio", &ratio.to_string(), "give --command before it")
            })?;
            *counted = *ratio;
        }
        Ok(commands.into_iter().map(|(_, text, ratio)| (text, ratio)).collect())
    }
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
