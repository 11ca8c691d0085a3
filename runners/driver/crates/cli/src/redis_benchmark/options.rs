//! The command line of redis-benchmark: words in, one checked [`Options`] out.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use crate::command_line;
use crate::endpoint::Endpoint;
use crate::option_values::{self, Words as _};
use engine::stage::depth_short_of;
use generator::digits;
use network::target::Target;
use protocol::script::Script;
use text::checks;
use text::failure::Failure;
use workload::limits::{self, MOST_THREADS};
use workload::phase::Length;

/// Where the server is unless it is said.
const PORT: u16 = 6379;
const SEE_HELP: &str = "see --help";
const LARGEST_VALUE: i64 = 1 << 30;

pub enum Asked {
    Run(Box<Options>),
    Help,
    Version,
}

pub struct Options {
    pub endpoint: Endpoint,
    pub resp3: bool,
    pub tracking: bool,
    pub clients: usize,
    pub length: Length,
    pub warmup: Duration,
    pub rate: Option<f64>,
    pub value_bytes: usize,
    /// None when it was not given: single thread mode.
    pub threads: Option<usize>,
    pub keepalive: bool,
    /// Below this are key numbers; none when -r was not given.
    pub keyspace: Option<u64>,
    pub sequential: bool,
    pub pipeline: usize,
    pub quiet: bool,
    pub csv: bool,
    pub precision: u8,
    pub forever: bool,
    pub idle: bool,
    pub tests: Option<String>,
    pub seed: u64,
    pub functions: usize,
    pub keys_in_fcall: usize,
    /// The words of a custom command.
    pub command: Vec<Vec<u8>>,
    /// Whether valkey-benchmark's own tests belong to those that run without -t.
    pub with_extras: bool,
    pub warnings: Vec<String>,
    pub(super) stdin: bool,
    pub(super) requests: Option<u64>,
    pub(super) duration: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            endpoint: Endpoint::default(),
            resp3: false,
            tracking: false,
            clients: 50,
            length: Length::Requests(100_000),
            warmup: Duration::ZERO,
            rate: None,
            value_bytes: 3,
            threads: None,
            keepalive: true,
            keyspace: None,
            sequential: false,
            pipeline: 1,
            quiet: false,
            csv: false,
            precision: 3,
            forever: false,
            idle: false,
            tests: None,
            seed: 1,
            functions: 10,
            keys_in_fcall: 1,
            command: Vec::new(),
            with_extras: false,
            warnings: Vec::new(),
            stdin: false,
            requests: None,
            duration: None,
        }
    }
}

/// The words that are left.
struct Words(std::vec::IntoIter<OsString>);

impl option_values::Words for Words {
    const SEE: &'static str = SEE_HELP;

    fn secret(&mut self, option: &str, _publish: fn(&str) -> String) -> Result<String, Failure> {
        let word = self.0.next().ok_or_else(|| invalid(option))?;
        Ok(word.to_string_lossy().into_owned())
    }
}

/// The failure of a word that is no option, or lacks its value.
pub fn invalid(option: &str) -> Failure {
    let cause = format!("Invalid option \"{}\" or option argument missing", command_line::shown(option));
    Failure::usage(cause, SEE_HELP)
}

pub fn parse(words: Vec<OsString>) -> Result<Asked, Failure> {
    let mut words = Words(words.into_iter());
    let mut options = Options::default();
    while let Some(word) = words.0.next() {
        let option = word.to_string_lossy().into_owned();
        match option.as_str() {
            "--help" => return Ok(Asked::Help),
            "-v" | "--version" => return Ok(Asked::Version),
            "--" => {
                options.command = words.0.by_ref().map(OsStringExt::into_vec).collect();
            }
            _ if option.starts_with('-') => options.take(&option, &mut words)?,
            _ => {
                options.command = [word].into_iter().chain(words.0.by_ref()).map(OsString::into_vec).collect()
            }
        }
    }
    options.finish()?;
    Ok(Asked::Run(Box::new(options)))
}

impl Options {
    fn take(&mut self, option: &str, words: &mut Words) -> Result<(), Failure> {
        match option {
            "-3" => self.resp3 = true,
            "--enable-tracking" => self.tracking = true,
            "-I" => self.idle = true,
            "-e" => self.warn("-e option has no effect. An error reply always ends the run."),
            "-q" => self.quiet = true,
            "--csv" => self.csv = true,
            "--precision" => self.precision = words.value(option)?,
            "-t" => self.tests = Some(words.text(option)?.to_lowercase()),
            "-x" => self.stdin = true,
            "-l" => self.forever = true,
            _ => return self.take_load(option, words),
        }
        Ok(())
    }

    fn take_load(&mut self, option: &str, words: &mut Words) -> Result<(), Failure> {
        match option {
            "-c" => self.clients = words.value(option)?,
            "-n" => self.requests = Some(words.value(option)?),
            "--duration" => self.duration = Some(words.seconds(option)?),
            "--warmup" => self.warmup = words.seconds(option)?,
            "--rps" => self.rate = Some(words.value(option)?),
            "-d" => self.value_bytes = words.value::<i64>(option)?.clamp(1, LARGEST_VALUE) as usize,
            "--threads" => self.threads = Some(words.value(option)?),
            "-k" => self.keepalive = words.value::<i64>(option)? != 0,
            "-r" => self.keyspace = Some(words.value::<i64>(option)?.max(0) as u64),
            "--sequential" => self.sequential = true,
            "-P" => self.pipeline = words.value::<i64>(option)?.max(1) as usize,
            "--seed" => self.seed = words.value(option)?,
            "--num-functions" => self.functions = words.value(option)?,
            "--num-keys-in-fcall" => self.keys_in_fcall = words.value(option)?,
            _ if self.endpoint.take(option, words)? => {}
            _ => return Err(invalid(option)),
        }
        Ok(())
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(text.to_owned());
    }

    /// Everything was read: what follows from it, and what cannot be.
    fn finish(&mut self) -> Result<(), Failure> {
        self.length = match (self.duration, self.requests) {
            (Some(_), Some(_)) => {
                return Err(Failure::usage("-n and --duration are both given", "give one of them"));
            }
            (Some(duration), None) => Length::Lasting(duration),
            (None, requests) => Length::Requests(requests.unwrap_or(100_000)),
        };
        if self.threads == Some(0) {
            self.threads = None;
        }
        if self.threads.is_some_and(|threads| threads > MOST_THREADS) {
            self.warn(&format!("Too many threads, limiting threads to {MOST_THREADS}."));
            self.threads = Some(MOST_THREADS);
        }
        if !self.command.is_empty() && self.tests.is_some() {
            self.warn("Option -t is ignored.");
        }
        if self.stdin {
            self.read_last_word()?;
        }
        self.check()
    }

    fn read_last_word(&mut self) -> Result<(), Failure> {
        let mut word = Vec::new();
        std::io::stdin()
            .read_to_end(&mut word)
            .map_err(|error| Failure::run(format!("cannot read stdin ({error})"), "leave -x out"))?;
        checks::require(!self.command.is_empty(), "-x is given without a command", "give its first words")?;
        self.command.push(word);
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        let empty = matches!(self.length, Length::Requests(0) | Length::Lasting(Duration::ZERO));
        checks::require(!empty, "there is nothing to measure", "give -n or --duration above 0")?;
        checks::require(self.clients > 0, "-c cannot be 0", "give at least 1 client")?;
        checks::require(
            self.keyspace.is_none_or(|keyspace| keyspace <= digits::LIMIT),
            "-r is above 10^12",
            "keys have twelve digits",
        )?;
        checks::require((1..=4).contains(&self.precision), "--precision is outside of 1 to 4", "3 is usual")?;
        checks::require(
            self.rate.is_none_or(|rate| rate > 0.0 && rate.is_finite()),
            "--rps is not above 0",
            "leave it out for no limit",
        )?;
        checks::require(
            !self.sequential || self.keyspace.is_some(),
            "--sequential is given without a keyspace",
            "give -r, too",
        )?;
        self.endpoint.check()
    }

    pub fn check_buffers(&self, script: &Script) -> Result<(), Failure> {
        checks::require(
            limits::fits(script.batch_bytes(self.pipeline), self.clients),
            "the requests of -c x -P x -d do not fit into 4 GiB",
            "lower one of them",
        )
    }

    /// What to say when the requests of `script` are too few for the pipeline.
    pub fn depth_warning(&self, script: &Script) -> Option<String> {
        let Length::Requests(requests) = self.length else { return None };
        let depth = depth_short_of(self.pipeline, requests, self.clients, script.unit())?;
        Some(format!(
            "a connection's share of -n is {depth}, so {depth} are in flight, not the {} of -P: raise -n or lower -c",
            self.pipeline
        ))
    }

    /// The server, with the commands that open a session in the order of redis-benchmark.
    pub fn target(&self) -> Result<Target, Failure> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let greeting = [
            self.endpoint.login(),
            self.tracking.then(|| words("CLIENT TRACKING on")),
            self.endpoint.select(),
            self.resp3.then(|| words("HELLO 3")),
        ];
        self.endpoint.target(PORT, greeting.into_iter().flatten().collect())
    }
}
