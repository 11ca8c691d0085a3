//! The command line of redis-benchmark: words in, one checked [`Options`] out.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, Command};

use crate::arguments::{self, Advice, Parsed, ask_for_help, cannot_be, without_value};
use crate::endpoint::Endpoint;
use crate::redis_benchmark::dataset::DatasetOptions;
use crate::redis_benchmark::suite::{NEWEST, VERSIONS, Version};
use crate::values::{parsed, seconds};
use engine::cluster::Roles;
use engine::stage::depth_below_pipeline;
use engine::table::Table;
use generator::digits;
use network::target::Target;
use protocol::script::Script;
use text::checks::require;
use text::failure::Failure;
use workload::limits::{MOST_THREADS, fits};
use workload::phase::Length;
use workload::protocol_name::ProtocolName;

const SEE_HELP: &str = "see --help";
const LARGEST_VALUE: i64 = 1 << 30;
const USUAL_REQUESTS: u64 = 100_000;
/// In the words of redis-benchmark, for Linux.
const KEEPALIVE_DISABLED: &str = "Keepalive disabled. You probably need 'echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse' \
                                  in order to use a lot of clients/requests";

#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub endpoint: Endpoint,
    #[command(flatten)]
    pub load: LoadOptions,
    #[command(flatten)]
    pub tests: TestOptions,
    #[command(flatten)]
    pub output: OutputOptions,
    /// The words of a custom command.
    #[arg(skip)]
    pub command: Vec<Vec<u8>>,
    /// The rows of `--dataset`.
    #[arg(skip)]
    pub table: Option<Arc<Table>>,
    /// Whether the program is valkey-benchmark: its own tests run without -t, too, and any command may have a count.
    #[arg(skip)]
    pub is_valkey: bool,
    #[arg(skip)]
    pub warnings: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadOptions {
    /// connections
    #[arg(short = 'c', value_name = "CLIENTS", default_value_t = 50)]
    pub clients: usize,
    /// exactly so many requests (100000)
    #[arg(short = 'n', value_name = "REQUESTS")]
    requests: Option<u64>,
    /// seconds instead of -n
    #[arg(long, value_name = "S", value_parser = |text: &str| seconds("--duration", text))]
    duration: Option<Duration>,
    /// seconds of the same load before, not counted (0)
    #[arg(long, value_name = "S", value_parser = |text: &str| seconds("--warmup", text))]
    warmup: Option<Duration>,
    /// at most so many requests per second (0: no limit)
    #[arg(long = "rps", value_name = "RATE")]
    pub rate: Option<f64>,
    /// requests per batch of a connection
    #[arg(short = 'P', value_name = "PIPELINE", default_value = "1", value_parser = at_least_1)]
    pub pipeline: usize,
    /// bytes of a value
    #[arg(short = 'd', value_name = "BYTES", default_value = "3", value_parser = value_bytes)]
    pub value_bytes: usize,
    /// put numbers below it for __rand_int__ and its kin
    #[arg(short = 'r', value_name = "KEYSPACE", value_parser = keyspace)]
    pub keyspace: Option<u64>,
    /// count these numbers up instead of drawing them
    #[arg(long)]
    pub sequential: bool,
    /// 0: a new connection for each batch
    #[arg(short = 'k', value_name = "0|1", default_value = "1", action = ArgAction::Set, value_parser = keepalive)]
    pub keepalive: bool,
    /// threads (single thread mode)
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// the same seed sends the same requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// speak RESP3
    #[arg(short = '3')]
    resp3: bool,
    /// nodes of a cluster that are loaded: no (masters), yes (replicas) or all; for tests that only read
    #[arg(long = "rfr", value_name = "MODE", default_value = "no", value_parser = roles, hide_default_value = true)]
    pub roles: Roles,
    /// ask for client tracking
    #[arg(long = "enable-tracking")]
    tracking: bool,
    /// open idle connections and wait
    #[arg(short = 'I')]
    pub idle: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Tests")]
pub struct TestOptions {
    /// names separated by commas (all)
    #[arg(short = 't', value_name = "TESTS", value_parser = test_names)]
    pub names: Option<String>,
    /// run the tests of this version of redis-benchmark when -t names none: 7.0, 7.2, 7.4 or 8.0
    #[arg(long = "as", value_name = "VERSION", default_value_t = NEWEST, value_parser = version)]
    pub stands_for: Version,
    /// the last word of the command is read from stdin
    #[arg(short = 'x')]
    pub stdin: bool,
    #[command(flatten)]
    dataset: DatasetOptions,
    /// again and again
    #[arg(short = 'l')]
    pub forever: bool,
    /// functions in the library of FUNCTION LOAD
    #[arg(long = "num-functions", value_name = "N", default_value_t = 10)]
    pub functions: usize,
    /// keys of FCALL
    #[arg(long = "num-keys-in-fcall", value_name = "N", default_value_t = 1)]
    pub keys_in_fcall: usize,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// one line per test
    #[arg(short = 'q')]
    pub quiet: bool,
    /// comma separated values
    #[arg(long)]
    pub csv: bool,
    /// significant digits of the percentile table, 1 to 4
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub precision: u8,
    /// without effect: an error reply always ends the run
    #[arg(short = 'e')]
    show_errors: bool,
}

fn at_least_1(text: &str) -> Result<usize, Failure> {
    parsed::<i64>("-P", text).map(|number| number.max(1) as usize)
}

fn value_bytes(text: &str) -> Result<usize, Failure> {
    parsed::<i64>("-d", text).map(|bytes| bytes.clamp(1, LARGEST_VALUE) as usize)
}

fn keyspace(text: &str) -> Result<u64, Failure> {
    parsed::<i64>("-r", text).map(|keys| keys.max(0) as u64)
}

fn roles(text: &str) -> Result<Roles, Failure> {
    match text {
        "no" => Ok(Roles::Masters),
        "yes" => Ok(Roles::Replicas),
        "all" => Ok(Roles::All),
        _ => Err(cannot_be("--rfr", text, "give no, yes or all")),
    }
}

fn keepalive(text: &str) -> Result<bool, Failure> {
    parsed::<i64>("-k", text).map(|number| number != 0)
}

/// Names in lower case, without blanks around their commas.
fn test_names(text: &str) -> Result<String, Failure> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_lowercase()).collect();
    Ok(names.join(","))
}

/// The version that `--as` names.
pub fn version(text: &str) -> Result<Version, Failure> {
    let known = VERSIONS.iter().find(|version| version.to_string() == text);
    let names = VERSIONS.map(|version| version.to_string()).join(", ");
    known.copied().ok_or_else(|| cannot_be("--as", text, &format!("it knows {names}")))
}

/// The failure of a word that is no option, or lacks its value.
pub fn invalid(option: &str) -> Failure {
    let cause = format!("Invalid option \"{}\" or option argument missing", without_value(option));
    Failure::usage(cause, SEE_HELP)
}

/// Read `words` by the options of `command`, those that it hides excepted.
pub fn parse(command: Command, words: Vec<OsString>) -> Result<Parsed<Options>, Failure> {
    let (words, custom) = match ask_for_help(&words) {
        true => (words, Vec::new()),
        false => split(&command, words)?,
    };
    Ok(match arguments::parse::<Options>(command, words, Advice::see(SEE_HELP))? {
        Parsed::Options(mut options, given) => {
            options.command = custom.into_iter().map(OsStringExt::into_vec).collect();
            options.finish()?;
            Parsed::Options(options, given)
        }
        text => text,
    })
}

/// The options among `words`, and the custom command behind them. As in redis-benchmark an option is a word, and so is
/// its value: `-c 5`, not `-c5`.
fn split(command: &Command, words: Vec<OsString>) -> Result<(Vec<OsString>, Vec<OsString>), Failure> {
    let mut options = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        if text == "--" {
            break;
        }
        if !text.starts_with('-') {
            return Ok((options, [word].into_iter().chain(words).collect()));
        }
        let arg = command
            .get_arguments()
            .find(|arg| !arg.is_hide_set() && is_spelled(arg, &text))
            .ok_or_else(|| invalid(&text))?;
        options.push(word);
        if arg.get_action().takes_values() {
            options.push(words.next().ok_or_else(|| invalid(&text))?);
        }
    }
    Ok((options, words.collect()))
}

fn is_spelled(arg: &Arg, word: &str) -> bool {
    let is_short = |letter: char| word.strip_prefix('-').is_some_and(|rest| rest == letter.to_string());
    let shorts = arg.get_short().into_iter().chain(arg.get_all_short_aliases().unwrap_or_default());
    let is_long = |name: &str| word.strip_prefix("--") == Some(name);
    shorts.into_iter().any(is_short) || arg.get_long().is_some_and(is_long)
}

impl Options {
    /// All options were read: derive settings from them and check them.
    fn finish(&mut self) -> Result<(), Failure> {
        if self.output.show_errors {
            self.warn("-e option has no effect. An error reply always ends the run.");
        }
        if self.load.threads == Some(0) {
            self.load.threads = None;
        }
        if self.load.threads.is_some_and(|threads| threads > MOST_THREADS) {
            self.warn(&format!("Too many threads, limiting threads to {MOST_THREADS}."));
            self.load.threads = Some(MOST_THREADS);
        }
        if !self.load.keepalive {
            self.warn(KEEPALIVE_DISABLED);
        }
        if !self.command.is_empty() && self.tests.names.is_some() {
            self.warn("Option -t is ignored.");
        }
        if self.tests.stdin {
            self.read_last_word()?;
        }
        self.check()?;
        self.table = self.tests.dataset.table(&self.command)?;
        Ok(())
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(text.to_owned());
    }

    fn read_last_word(&mut self) -> Result<(), Failure> {
        let mut word = Vec::new();
        std::io::stdin()
            .read_to_end(&mut word)
            .map_err(|error| Failure::run(format!("cannot read stdin ({error})"), "leave -x out"))?;
        require(!self.command.is_empty(), "-x is given without a command", "give its first words")?;
        self.command.push(word);
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        let load = &self.load;
        let both = load.duration.is_some() && load.requests.is_some();
        require(!both, "Options -n and --duration are mutually exclusive", "give one of them")?;
        let empty = matches!(self.length(), Length::Requests(0) | Length::Lasting(Duration::ZERO));
        require(!empty, "there is nothing to measure", "give -n or --duration above 0")?;
        require(load.clients > 0, "-c cannot be 0", "give at least 1 client")?;
        require(
            load.keyspace.is_none_or(|keyspace| keyspace <= digits::LIMIT),
            "-r is above 10^12",
            "keys have twelve digits",
        )?;
        require((1..=4).contains(&self.output.precision), "--precision is outside of 1 to 4", "3 is usual")?;
        require(
            load.rate.is_none_or(|rate| rate >= 0.0 && rate.is_finite()),
            "--rps is below 0",
            "leave it out, or give 0, for no limit",
        )?;
        require(
            load.roles == Roles::Masters || self.endpoint.access.cluster,
            "--rfr is given without a cluster",
            "give --cluster, too",
        )?;
        require(
            !load.sequential || load.keyspace.is_some(),
            "--sequential is given without a keyspace",
            "give -r, too",
        )?;
        self.endpoint.check()
    }

    pub fn length(&self) -> Length {
        match self.load.duration {
            Some(duration) => Length::Lasting(duration),
            None => Length::Requests(self.load.requests.unwrap_or(USUAL_REQUESTS)),
        }
    }

    pub fn warmup(&self) -> Duration {
        self.load.warmup.unwrap_or_default()
    }

    pub fn check_buffers(&self, script: &Script) -> Result<(), Failure> {
        require(
            fits(script.batch_bytes(self.load.pipeline), self.load.clients),
            "the requests of -c x -P x -d do not fit into 4 GiB",
            "lower one of them",
        )
    }

    /// What to say when the requests of `script` are too few for the pipeline.
    pub fn depth_warning(&self, script: &Script) -> Option<String> {
        let Length::Requests(requests) = self.length() else { return None };
        let LoadOptions { pipeline, clients, .. } = self.load;
        let depth = depth_below_pipeline(pipeline, requests, clients, script.unit())?;
        Some(format!(
            "a connection's share of -n is {depth}, so {depth} are in flight, not the {pipeline} of -P: raise -n or lower -c"
        ))
    }

    /// The server, with the commands that open a session in the order of redis-benchmark.
    pub fn target(&self, protocol: ProtocolName) -> Result<Target, Failure> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let greeting = [
            self.endpoint.login(),
            self.load.tracking.then(|| words("CLIENT TRACKING on")),
            self.endpoint.select(),
            self.load.resp3.then(|| words("HELLO 3")),
        ];
        self.endpoint.target(protocol, greeting.into_iter().flatten().collect())
    }
}
