//! The command line of `speedbench run`: words in, one checked [`Plan`] out.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;

use crate::failure::Failure;
use crate::job::Window;
use crate::keys::Distribution;
use crate::net::{self, Address, Target};
use crate::plan::{KeySpace, Length, Output, Phase, Plan, Terms};
use crate::values::Sizes;
use crate::workload::{Protocol, Workload};
use crate::workload_file::{self, WorkloadFile};

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
  --workload FILE    phases of load as TOML, or JSON (*.json, or - for stdin); instead
                     of the other options of this block, but --seed, and of the window
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
  --csv              one row per test instead of a table
  --hdr-log FILE     latencies of each second, as a log of HdrHistogram intervals
  --allow-errors     count error replies instead of giving up
  --help, --version
";

const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Request buffers of all connections together.
const LARGEST_BUFFERS: usize = 4 * 1024 * 1024 * 1024;

#[derive(Debug)]
pub enum Command {
    Run(Box<Plan>),
    Help,
    Version,
}

/// What was given, before defaults and checks.
#[derive(Default)]
struct Given {
    protocol: Option<Protocol>,
    host: Option<String>,
    port: Option<u16>,
    socket: Option<String>,
    password: Option<String>,
    user: Option<String>,
    timeout: Option<Duration>,
    workload: Option<String>,
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
    csv: bool,
    hdr_log: Option<String>,
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
            Long("workload") => given.workload = Some(value(parser, "--workload")?),
            Short('t') => given.tests = Some(value(parser, "-t")?),
            Long("protocol") => given.protocol = Some(protocol(&value::<String>(parser, "--protocol")?)?),
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
            Long("csv") => given.csv = true,
            Long("hdr-log") => given.hdr_log = Some(value(parser, "--hdr-log")?),
            other => return Err(bad_words(other.unexpected())),
        }
    }
    given.plan().map(|plan| Command::Run(Box::new(plan)))
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

/// What the settings of a workload are called on the command line.
const TERMS: Terms = Terms {
    clients: "-c",
    threads: "--threads",
    pipeline: "-P",
    keys: "-r",
    bytes: "-d",
    length: "-n or --duration",
};

impl Given {
    fn plan(self) -> Result<Plan, Failure> {
        let file = self.workload.as_deref().map(|path| self.read(path)).transpose()?;
        let (protocol, seed, phases) = match file {
            Some(file) => (file.protocol, self.seed.unwrap_or(file.seed), file.phases),
            None => (self.protocol.unwrap_or_default(), self.seed.unwrap_or(1), self.phases()?),
        };
        let output = self.output()?;
        let plan = Plan {
            protocol,
            target: self.target(protocol)?,
            seed,
            phases,
            cpus: self.cpus,
            server_pid: self.server_pid,
            slice_ms: self.slice_ms.unwrap_or(100),
            allow_errors: self.allow_errors,
            output,
            hdr_log: self.hdr_log,
        };
        plan.check()?;
        Ok(plan)
    }

    fn output(&self) -> Result<Output, Failure> {
        match (self.json, self.csv) {
            (true, true) => Err(Failure::usage("--json and --csv are both given", "give one of them")),
            (true, false) => Ok(Output::Json),
            (false, true) => Ok(Output::Csv),
            (false, false) => Ok(Output::Table),
        }
    }

    /// The workload file, which leaves no room for options that say the same.
    fn read(&self, path: &str) -> Result<WorkloadFile, Failure> {
        let given = [
            ("--protocol", self.protocol.is_some()),
            ("-t", self.tests.is_some()),
            ("-c", self.clients.is_some()),
            ("-P", self.pipeline.is_some()),
            ("--window", self.window.is_some()),
            ("-r", self.keyspace.is_some()),
            ("-d", self.value_bytes.is_some()),
            ("--prefill", self.prefill),
            ("--duration", self.duration.is_some()),
            ("-n", self.requests.is_some()),
            ("--warmup", self.warmup.is_some()),
            ("--threads", self.threads.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            None => workload_file::read(path),
            Some((option, _)) => {
                Err(Failure::usage(format!("{option} is given beside --workload"), "write it into the file"))
            }
        }
    }

    /// One phase per test, alike but for the prefill, which is done once.
    fn phases(&self) -> Result<Vec<Phase>, Failure> {
        let protocol = self.protocol.unwrap_or_default();
        let named = |name: &str| Workload::named(protocol, &name.to_lowercase());
        let workloads = match &self.tests {
            Some(list) => list.split(',').map(named).collect::<Result<_, _>>()?,
            None => Workload::all(protocol),
        };
        let phase = |(at, workload)| self.phase(workload, self.prefill && at == 0);
        let phases: Vec<Phase> = workloads.into_iter().enumerate().map(phase).collect::<Result<_, _>>()?;
        phases.iter().try_for_each(|phase| phase.check(&TERMS, protocol))?;
        Ok(phases)
    }

    fn phase(&self, workload: Workload, prefill: bool) -> Result<Phase, Failure> {
        let length = self.length()?;
        let usual = Phase::of(workload);
        Ok(Phase {
            clients: self.clients.unwrap_or(usual.clients),
            threads: self.threads.unwrap_or(usual.threads),
            pipeline: self.pipeline.unwrap_or(usual.pipeline),
            window: self.window.unwrap_or(usual.window),
            keys: KeySpace {
                count: self.keyspace.unwrap_or(usual.keys.count),
                distribution: Distribution::Uniform,
            },
            values: self.value_bytes.map_or(usual.values.clone(), Sizes::Fixed),
            prefill,
            warmup: self.warmup.unwrap_or(length.usual_warmup()),
            length,
            ..usual
        })
    }

    fn length(&self) -> Result<Length, Failure> {
        match (self.duration, self.requests) {
            (Some(_), Some(_)) => Err(Failure::usage("-n and --duration are both given", "give one of them")),
            (None, Some(requests)) => Ok(Length::Requests(requests)),
            (Some(duration), None) => Ok(Length::Lasting(duration)),
            (None, None) => Ok(Length::DEFAULT),
        }
    }

    fn target(&self, protocol: Protocol) -> Result<Target, Failure> {
        let timeout = self.timeout.unwrap_or(Duration::from_secs(10));
        require(!timeout.is_zero(), "--timeout cannot be 0", "give seconds above 0")?;
        Ok(Target {
            address: self.address(protocol)?,
            tls: None,
            greeting: self.greeting(protocol)?,
            timeout,
        })
    }

    fn address(&self, protocol: Protocol) -> Result<Address, Failure> {
        match &self.socket {
            Some(path) => Address::unix(path),
            None => {
                let host = self.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
                Ok(Address::Tcp { host, port: self.port.unwrap_or(protocol.port()) })
            }
        }
    }

    fn greeting(&self, protocol: Protocol) -> Result<Vec<Vec<String>>, Failure> {
        require(
            self.user.is_none() || self.password.is_some(),
            "--user is given without a password",
            "give -a, too",
        )?;
        require(
            self.password.is_none() || protocol == Protocol::Resp,
            "-a is given for memcached, whose text protocol is used without a login here",
            "leave it out",
        )?;
        let auth = |password: &String| net::auth(self.user.as_deref(), password);
        Ok(self.password.iter().map(auth).collect())
    }
}
