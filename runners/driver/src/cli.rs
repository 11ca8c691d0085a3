//! The command line: words in, one checked [`Options`] out.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;

use crate::digits;
use crate::failure::Failure;
use crate::job::Window;
use crate::net::{self, Address, Target};
use crate::workload::{Protocol, Workload};

pub const HELP: &str = "\
Measure a server that speaks RESP (Redis, Valkey) or the protocol of memcached.

Usage: speedbench run [options]
       speedbench redis-benchmark ...        as redis-benchmark; see its --help
       speedbench memcached-benchmark ...    the same for memcached

Server
  --protocol NAME    resp or memcached (resp)
  -h HOST            host name or address (127.0.0.1)
  -p PORT            port (6379; memcached 11211)
  -s SOCKET          path of a unix socket; replaces -h and -p
  -a PASSWORD        password
  --user NAME        user of the password
  --timeout S        give up when the server is silent for S seconds (10)

Workload
  -t TESTS           of ping,set,get,incr; measured in this order (all);
                     memcached: see memcached-benchmark --help
                     a mix with weights is a test, too: get:9+set:1
  -c CLIENTS         connections (50)
  -P PIPELINE        requests per batch of a connection (1)
  -r KEYSPACE        keys (1)
  -d VALUE_BYTES     bytes of a value (3)
  --window KIND      batch: send when all replies are in; rolling: after each (batch)
  --seed N           the same seed sends the same requests (1)
  --prefill          first set every key once, and check that the server has them

Window
  --duration S       seconds (5)
  -n REQUESTS        exactly so many requests instead
  --warmup S         seconds of the same load before it (0.5; with -n 0)
  --slice-ms MS      width of the slices (100)

Machine
  --threads N        driver threads (1)
  --cpus LIST        pin thread i to CPU i of the list, as in 1,3
  --server-pid PID   read the CPU time of this process, too

Result
  --json             one document, schema speedbench.v1, instead of a table
  --allow-errors     count error replies instead of giving up
  --help, --version
";

const LONGEST: Duration = Duration::from_secs(24 * 3600);
const LARGEST_VALUE: usize = 512 * 1024 * 1024;
/// Requests are kept whole in memory, up to ten values in each.
const LARGEST_MEMCACHED_VALUE: usize = 16 * 1024 * 1024;
/// Request buffers of all connections together.
const LARGEST_BUFFERS: usize = 4 * 1024 * 1024 * 1024;

#[derive(Debug)]
pub enum Command {
    Run(Box<Options>),
    Help,
    Version,
}

/// How long the window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Lasting(Duration),
    Requests(u64),
}

#[derive(Debug)]
pub struct Options {
    pub protocol: Protocol,
    pub target: Target,
    pub tests: Vec<Workload>,
    pub clients: usize,
    pub length: Length,
    pub warmup: Duration,
    pub pipeline: usize,
    pub window: Window,
    pub keyspace: u64,
    pub value_bytes: usize,
    pub threads: usize,
    pub seed: u64,
    pub prefill: bool,
    pub cpus: Vec<usize>,
    pub server_pid: Option<u32>,
    pub slice_ms: u64,
    pub allow_errors: bool,
    pub json: bool,
}

/// What was given, before defaults and checks.
#[derive(Default)]
struct Given {
    protocol: Protocol,
    host: Option<String>,
    port: Option<u16>,
    socket: Option<String>,
    password: Option<String>,
    user: Option<String>,
    timeout: Option<Duration>,
    tests: Option<String>,
    clients: Option<usize>,
    pipeline: Option<usize>,
    window: Option<Window>,
    keyspace: Option<u64>,
    value_bytes: Option<usize>,
    seed: Option<u64>,
    prefill: bool,
    duration: Option<Duration>,
    requests: Option<u64>,
    warmup: Option<Duration>,
    slice_ms: Option<u64>,
    threads: Option<usize>,
    cpus: Vec<usize>,
    server_pid: Option<u32>,
    allow_errors: bool,
    json: bool,
}

/// Parse the words of a command line, the program's name first. Errors are [`Failure::Usage`].
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, Failure> {
    let mut parser = lexopt::Parser::from_iter(words);
    match parser.next().map_err(bad_words)? {
        Some(Value(word)) if word == "run" => parse_run(&mut parser),
        Some(Long("help")) => Ok(Command::Help),
        Some(Long("version")) => Ok(Command::Version),
        Some(other) => Err(bad_words(other.unexpected())),
        None => Err(Failure::usage("no command given", "say `speedbench run`, or --help")),
    }
}

fn parse_run(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let mut given = Given::default();
    while let Some(word) = parser.next().map_err(bad_words)? {
        match word {
            Long("help") => return Ok(Command::Help),
            Long("version") => return Ok(Command::Version),
            Short('h') => given.host = Some(value(parser, "-h")?),
            Short('p') => given.port = Some(value(parser, "-p")?),
            Short('s') => given.socket = Some(value(parser, "-s")?),
            Short('a') => given.password = Some(value(parser, "-a")?),
            Long("user") => given.user = Some(value(parser, "--user")?),
            Long("timeout") => given.timeout = Some(seconds(parser, "--timeout")?),
            Short('t') => given.tests = Some(value(parser, "-t")?),
            Long("protocol") => given.protocol = protocol(&value::<String>(parser, "--protocol")?)?,
            Short('c') => given.clients = Some(value(parser, "-c")?),
            Short('P') => given.pipeline = Some(value(parser, "-P")?),
            Long("window") => given.window = Some(window(&value::<String>(parser, "--window")?)?),
            Short('r') => given.keyspace = Some(value(parser, "-r")?),
            Short('d') => given.value_bytes = Some(value(parser, "-d")?),
            Long("seed") => given.seed = Some(value(parser, "--seed")?),
            Long("prefill") => given.prefill = true,
            Long("duration") => given.duration = Some(seconds(parser, "--duration")?),
            Short('n') => given.requests = Some(value(parser, "-n")?),
            Long("warmup") => given.warmup = Some(seconds(parser, "--warmup")?),
            Long("slice-ms") => given.slice_ms = Some(value(parser, "--slice-ms")?),
            Long("threads") => given.threads = Some(value(parser, "--threads")?),
            Long("cpus") => given.cpus = cpus(&value::<String>(parser, "--cpus")?)?,
            Long("server-pid") => given.server_pid = Some(value(parser, "--server-pid")?),
            Long("allow-errors") => given.allow_errors = true,
            Long("json") => given.json = true,
            other => return Err(bad_words(other.unexpected())),
        }
    }
    given.check().map(|options| Command::Run(Box::new(options)))
}

fn bad_words(error: lexopt::Error) -> Failure {
    Failure::usage(error, "see `speedbench --help`")
}

fn value<T: FromStr>(parser: &mut lexopt::Parser, option: &str) -> Result<T, Failure> {
    let word = parser.value().map_err(bad_words)?;
    let word = word.to_string_lossy();
    word.parse()
        .map_err(|_| Failure::usage(format!("{option} cannot be '{word}'"), "see `speedbench --help`"))
}

fn seconds(parser: &mut lexopt::Parser, option: &str) -> Result<Duration, Failure> {
    duration(value(parser, option)?, option)
}

pub fn duration(seconds: f64, option: &str) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= LONGEST).ok_or_else(|| {
        Failure::usage(format!("{option} cannot be {seconds}"), "give seconds between 0 and 86400")
    })
}

fn protocol(name: &str) -> Result<Protocol, Failure> {
    Protocol::ALL
        .into_iter()
        .find(|protocol| protocol.name() == name)
        .ok_or_else(|| Failure::usage(format!("--protocol cannot be '{name}'"), "give resp or memcached"))
}

fn window(kind: &str) -> Result<Window, Failure> {
    match kind {
        "batch" => Ok(Window::Batch),
        "rolling" => Ok(Window::Rolling),
        _ => Err(Failure::usage(format!("--window cannot be '{kind}'"), "give batch or rolling")),
    }
}

fn cpus(list: &str) -> Result<Vec<usize>, Failure> {
    list.split(',')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| Failure::usage(format!("--cpus cannot be '{list}'"), "give CPU numbers, as in 1,3"))
}

/// A usage failure unless `holds`.
pub fn require(holds: bool, cause: &str, remedy: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::usage(cause, remedy)) }
}

/// Whether the batches of all connections fit into the memory that is meant for them.
pub fn fits(batch_bytes: usize, clients: usize) -> bool {
    batch_bytes.checked_mul(clients).is_some_and(|bytes| bytes <= LARGEST_BUFFERS)
}

impl Given {
    fn check(self) -> Result<Options, Failure> {
        let options = Options {
            length: self.length()?,
            warmup: self.warmup()?,
            target: self.target()?,
            tests: self.tests()?,
            protocol: self.protocol,
            clients: self.clients.unwrap_or(50),
            pipeline: self.pipeline.unwrap_or(1),
            window: self.window.unwrap_or(Window::Batch),
            keyspace: self.keyspace.unwrap_or(1),
            value_bytes: self.value_bytes.unwrap_or(3),
            threads: self.threads.unwrap_or(1),
            seed: self.seed.unwrap_or(1),
            prefill: self.prefill,
            cpus: self.cpus,
            server_pid: self.server_pid,
            slice_ms: self.slice_ms.unwrap_or(100),
            allow_errors: self.allow_errors,
            json: self.json,
        };
        options.check_workload()?;
        options.check_machine()?;
        Ok(options)
    }

    fn tests(&self) -> Result<Vec<Workload>, Failure> {
        let named = |name: &str| Workload::named(self.protocol, &name.to_lowercase());
        match &self.tests {
            Some(list) => list.split(',').map(named).collect(),
            None => Ok(Workload::all(self.protocol)),
        }
    }

    fn length(&self) -> Result<Length, Failure> {
        match (self.duration, self.requests) {
            (Some(_), Some(_)) => Err(Failure::usage("-n and --duration are both given", "give one of them")),
            (None, Some(requests)) => Ok(Length::Requests(requests)),
            (duration, None) => Ok(Length::Lasting(duration.unwrap_or(Duration::from_secs(5)))),
        }
    }

    /// A count is exact: unless it is asked for, the server sees no request beyond it.
    fn warmup(&self) -> Result<Duration, Failure> {
        let usual = match self.requests {
            Some(_) => Duration::ZERO,
            None => Duration::from_millis(500),
        };
        Ok(self.warmup.unwrap_or(usual))
    }

    fn target(&self) -> Result<Target, Failure> {
        let timeout = self.timeout.unwrap_or(Duration::from_secs(10));
        require(!timeout.is_zero(), "--timeout cannot be 0", "give seconds above 0")?;
        Ok(Target { address: self.address()?, tls: None, greeting: self.greeting()?, timeout })
    }

    fn address(&self) -> Result<Address, Failure> {
        match &self.socket {
            Some(path) => Address::unix(path),
            None => {
                let host = self.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
                Ok(Address::Tcp { host, port: self.port.unwrap_or(self.protocol.port()) })
            }
        }
    }

    fn greeting(&self) -> Result<Vec<Vec<String>>, Failure> {
        require(
            self.user.is_none() || self.password.is_some(),
            "--user is given without a password",
            "give -a, too",
        )?;
        require(
            self.password.is_none() || self.protocol == Protocol::Resp,
            "-a is given for memcached, whose text protocol is used without a login here",
            "leave it out",
        )?;
        let auth = |password: &String| net::auth(self.user.as_deref(), password);
        Ok(self.password.iter().map(auth).collect())
    }
}

impl Options {
    fn check_workload(&self) -> Result<(), Failure> {
        let empty = matches!(self.length, Length::Requests(0) | Length::Lasting(Duration::ZERO));
        require(!empty, "the window is empty", "give -n or --duration above 0")?;
        require(self.clients > 0, "-c cannot be 0", "give at least 1 client")?;
        require(self.pipeline > 0, "-P cannot be 0", "give at least 1 request per batch")?;
        require(
            (1..=digits::LIMIT).contains(&self.keyspace),
            "-r is outside of 1 to 10^12",
            "keys have twelve digits",
        )?;
        require(self.value_bytes <= LARGEST_VALUE, "-d is above 512 MiB", "give a smaller value")?;
        let batch_bytes = self.request_bytes()?.saturating_mul(self.pipeline);
        require(
            fits(batch_bytes, self.clients),
            "the requests of -c x -P x -d do not fit into 4 GiB",
            "lower one of them",
        )
    }

    /// About the bytes of the longest request.
    fn request_bytes(&self) -> Result<usize, Failure> {
        let usual = self.value_bytes + 64;
        if self.protocol == Protocol::Resp {
            return Ok(usual);
        }
        require(
            self.value_bytes <= LARGEST_MEMCACHED_VALUE,
            "-d is above 16 MiB",
            "give memcached a smaller value",
        )?;
        let speeches = self.tests.iter().map(|test| test.speech(self.value_bytes, self.seed));
        Ok(speeches.map(|speech| speech.script().batch_bytes(1)).fold(usual, usize::max))
    }

    fn check_machine(&self) -> Result<(), Failure> {
        require(self.threads > 0, "--threads cannot be 0", "give at least 1 thread")?;
        require(
            self.threads <= self.clients,
            "there are more --threads than clients",
            "lower --threads or raise -c",
        )?;
        require(
            self.cpus.is_empty() || self.cpus.len() >= self.threads,
            "--cpus names fewer CPUs than there are threads",
            "name one CPU per thread",
        )?;
        require(
            (1..=3_600_000).contains(&self.slice_ms),
            "--slice-ms is outside of 1 to 3600000",
            "100 is usual",
        )?;
        let pid_ok = self.server_pid.is_none_or(|pid| (1..=1 << 22).contains(&pid));
        require(pid_ok, "--server-pid is not a process id", "give the pid of the server")
    }
}
