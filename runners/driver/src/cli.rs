//! The command line of `speedbench run`: words in, one checked [`Plan`] out.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::command_line::{CommandLine, shown};
use crate::counters;
use crate::endpoint::{Endpoint, Words};
use crate::failure::Failure;
use crate::job::Window;
use crate::keys::Distribution;
use crate::modes::{blocking, pubsub};
use crate::net::Target;
use crate::plan::{self, KeySpace, Length, Limit, Mode, Output, Phase, Plan, Probe, Terms, check_rate};
use crate::schedule::Law;
use crate::tls;
use crate::values::Sizes;
use crate::workload::{Protocol, Workload};
use crate::workload_file::{self, WorkloadFile};

pub const HELP: &str = "\
Measure a server that speaks RESP (Redis, Valkey) or the protocol of memcached.

Usage: speedbench run [options]
       speedbench compare ...                results with each other; see its --help
       speedbench redis-benchmark ...        as redis-benchmark; see its --help
       speedbench memcached-benchmark ...    the same for memcached
       speedbench memtier-benchmark ...      as memtier_benchmark; see its --help

Server
  --protocol NAME    resp or memcached (resp)
  -h HOST            host name or address (127.0.0.1)
  -p PORT            port (6379; memcached 11211)
  -s SOCKET          path of a unix socket; replaces -h and -p
  -u URI             redis://user:password@host:port/db; rediss:// for TLS
  -a PASSWORD        password
  --user NAME        user of the password
  --dbnum DB         database (0)
  --cluster          spread the load over the masters of a cluster; keys need {tag}
  --timeout S        give up when the server is silent for S seconds (10)
  --tls              encrypt; with --sni NAME, --cacert FILE, --cacertdir DIR, --insecure,
                     --cert FILE --key FILE, --tls-ciphers LIST, --tls-ciphersuites LIST

Workload
  --mode NAME        closed: a loop that sends again when it was answered; idle: connections
                     that are held and silent; churn: each sends one batch (closed);
                     pubsub: -c subscribers; blocking: -c clients that wait for values
  --publishers N, --channels N, --subscribe channels|patterns|shards    of pubsub (1, 1)
  --pop COMMAND      of blocking: blpop, bzpopmin or xreadgroup (blpop)
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
  --prefill          first set every key once, and check that the server has them; it
                     must hold no keys before. --prefill=force overwrites keys that
                     it holds, also those of a --workload
  -3                 speak RESP3
  --tracking         ask for client tracking, with -3: invalidations are counted

Schedule
  --rate R           open loop: R requests per second of all connections, answered or
                     not; -P is how many each may have in flight
  --arrivals LAW     fixed, or poisson: gaps of chance (fixed)
  --sweep LIST       each of these rates, as in 10000,20000
  --search LIMIT     the highest rate that keeps it, as in p99:1000us; begins at --rate
  --probe-clients N  connections that ask at a low rate beside the load (1)
  --probe-rate R     requests per second of all of them (100); either asks for a probe

Window
  --duration S       seconds (5)
  -n REQUESTS        exactly so many requests instead
  --warmup S         seconds of the same load before it (0.5; with -n 0)
  --warmup-most S    go on with it until the load is steady, but no longer than this
  --slice-ms MS      width of the slices (100)

Machine
  --threads N        driver threads (1)
  --cpus LIST        pin thread i to CPU i of the list, as in 1,3
  --server-pid PID   read the CPU time of this process, too
  --server-events L  let the kernel count instructions,cycles of it (task-clock, page-faults, context-switches)

Result
  --json             one document, schema speedbench.v1, instead of a table
  --csv              one row per test instead of a table
  --hdr-log FILE     latencies of each second, as a log of HdrHistogram intervals
  --allow-errors     count error replies instead of giving up
  --help, --version
";

const SEE_HELP: &str = "see `speedbench --help`";
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
    endpoint: Endpoint,
    workload: Option<String>,
    mode: Option<String>,
    publishers: Option<usize>,
    channels: Option<usize>,
    subscribe: Option<String>,
    pop: Option<String>,
    tests: Option<String>,
    clients: Option<usize>,
    pipeline: Option<usize>,
    window: Option<Window>,
    keyspace: Option<u64>,
    value_bytes: Option<usize>,
    seed: Option<u64>,
    prefill: bool,
    force: bool,
    resp3: bool,
    tracking: bool,
    rate: Option<f64>,
    arrivals: Option<Law>,
    sweep: Option<Vec<f64>>,
    search: Option<Limit>,
    probe_clients: Option<usize>,
    probe_rate: Option<f64>,
    duration: Option<Duration>,
    requests: Option<u64>,
    warmup: Option<Duration>,
    warmup_most: Option<Duration>,
    slice_ms: Option<u64>,
    threads: Option<usize>,
    cpus: Vec<usize>,
    server_pid: Option<u32>,
    server_events: Vec<&'static str>,
    allow_errors: bool,
    json: bool,
    csv: bool,
    hdr_log: Option<String>,
}

/// Parse the words of a command line, the program's name first. Errors are [`Failure::Usage`].
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, Failure> {
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default().to_string_lossy().into_owned();
    let Some(first) = words.next() else {
        return Err(Failure::usage("no command given", "say `speedbench run`, or --help"));
    };
    match first.to_str() {
        Some("run") => parse_run(CommandLine::new(&[program, "run".to_owned()], words)),
        Some("--help") => Ok(Command::Help),
        Some("--version") => Ok(Command::Version),
        _ => Err(Failure::usage(format!("invalid command '{}'", shown(&first.to_string_lossy())), SEE_HELP)),
    }
}

fn parse_run(mut line: CommandLine) -> Result<Command, Failure> {
    let mut given = Given::default();
    let parser = &mut line;
    while let Some(option) = parser.option()? {
        match option.as_str() {
            "--help" => return Ok(Command::Help),
            "--version" => return Ok(Command::Version),
            "--workload" => given.workload = Some(value(parser, "--workload")?),
            "--mode" => given.mode = Some(value(parser, "--mode")?),
            "--publishers" => given.publishers = Some(value(parser, "--publishers")?),
            "--channels" => given.channels = Some(value(parser, "--channels")?),
            "--subscribe" => given.subscribe = Some(value(parser, "--subscribe")?),
            "--pop" => given.pop = Some(value(parser, "--pop")?),
            "-t" => given.tests = Some(value(parser, "-t")?),
            "--protocol" => given.protocol = Some(protocol(&value::<String>(parser, "--protocol")?)?),
            "-c" => given.clients = Some(value(parser, "-c")?),
            "-P" => given.pipeline = Some(value(parser, "-P")?),
            "--window" => given.window = Some(window(&value::<String>(parser, "--window")?)?),
            "-r" => given.keyspace = Some(value(parser, "-r")?),
            "-d" => given.value_bytes = Some(value(parser, "-d")?),
            "--seed" => given.seed = Some(value(parser, "--seed")?),
            "--prefill" => match parser.optional().as_deref() {
                None => given.prefill = true,
                Some("force") => given.force = true,
                Some(other) => {
                    let cause = format!("--prefill cannot be '{other}'");
                    return Err(Failure::usage(cause, "leave the value out, or give --prefill=force"));
                }
            },
            "-3" => given.resp3 = true,
            "--tracking" => given.tracking = true,
            "--rate" => given.rate = Some(check_rate(value(parser, "--rate")?, "--rate")?),
            "--arrivals" => given.arrivals = Some(law(&value::<String>(parser, "--arrivals")?)?),
            "--sweep" => given.sweep = Some(rates(&value::<String>(parser, "--sweep")?)?),
            "--search" => given.search = Some(limit(&value::<String>(parser, "--search")?)?),
            "--probe-clients" => given.probe_clients = Some(value(parser, "--probe-clients")?),
            "--probe-rate" => given.probe_rate = Some(value(parser, "--probe-rate")?),
            "--duration" => given.duration = Some(seconds(parser, "--duration")?),
            "-n" => given.requests = Some(value(parser, "-n")?),
            "--warmup" => given.warmup = Some(seconds(parser, "--warmup")?),
            "--warmup-most" => given.warmup_most = Some(seconds(parser, "--warmup-most")?),
            "--slice-ms" => given.slice_ms = Some(value(parser, "--slice-ms")?),
            "--threads" => given.threads = Some(value(parser, "--threads")?),
            "--cpus" => given.cpus = cpus(&value::<String>(parser, "--cpus")?)?,
            "--server-pid" => given.server_pid = Some(value(parser, "--server-pid")?),
            "--server-events" => given.server_events = events(&value::<String>(parser, "--server-events")?)?,
            "--allow-errors" => given.allow_errors = true,
            "--json" => given.json = true,
            "--csv" => given.csv = true,
            "--hdr-log" => given.hdr_log = Some(value(parser, "--hdr-log")?),
            _ if given.endpoint.take(&option, parser)? => {}
            _ => return Err(Failure::usage(format!("invalid option '{option}'"), SEE_HELP)),
        }
    }
    given.plan(line.record()).map(|plan| Command::Run(Box::new(plan)))
}

fn events(list: &str) -> Result<Vec<&'static str>, Failure> {
    counters::named(list).ok_or_else(|| {
        Failure::usage(
            format!("invalid --server-events '{list}'"),
            format!("there are {}", counters::names()),
        )
    })
}

fn value<T: FromStr>(parser: &mut CommandLine, option: &str) -> Result<T, Failure> {
    Words::value(parser, option)
}

fn seconds(parser: &mut CommandLine, option: &str) -> Result<Duration, Failure> {
    Words::seconds(parser, option)
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

/// What `name` stands for where workload files may say it, too.
fn known<T: DeserializeOwned>(name: &str, option: &str, names: &str) -> Result<T, Failure> {
    serde_json::from_value(name.into())
        .map_err(|_| Failure::usage(format!("{option} cannot be '{name}'"), format!("give {names}")))
}

fn window(kind: &str) -> Result<Window, Failure> {
    match kind {
        "batch" => Ok(Window::Batch),
        "rolling" => Ok(Window::Rolling),
        _ => Err(Failure::usage(format!("--window cannot be '{kind}'"), "give batch or rolling")),
    }
}

fn law(name: &str) -> Result<Law, Failure> {
    Law::ALL
        .into_iter()
        .find(|law| law.name() == name)
        .ok_or_else(|| Failure::usage(format!("--arrivals cannot be '{name}'"), "give fixed or poisson"))
}

fn rates(list: &str) -> Result<Vec<f64>, Failure> {
    let rate = |text: &str| {
        let rate = text.parse().map_err(|_| {
            Failure::usage(format!("--sweep cannot be '{list}'"), "give rates, as in 10000,20000")
        })?;
        check_rate(rate, "--sweep")
    };
    list.split(',').map(rate).collect()
}

/// `p99:1000us`
fn limit(text: &str) -> Result<Limit, Failure> {
    let (percentile, us) = text.split_once(':').unwrap_or_default();
    let number = |text: Option<&str>| text?.parse().ok();
    match (number(percentile.strip_prefix('p')), number(us.strip_suffix("us"))) {
        (Some(percentile), Some(us)) => Limit { percentile, us }.check("--search"),
        _ => Err(Failure::usage(
            format!("--search cannot be '{text}'"),
            "give a percentile and a latency, as in p99:1000us",
        )),
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
    resp3: "-3",
    tracking: "--tracking",
};

impl Given {
    fn plan(self, argv: Vec<String>) -> Result<Plan, Failure> {
        let file = self.workload.as_deref().map(|path| self.read(path)).transpose()?;
        let (protocol, seed, phases) = match file {
            Some(file) => (file.protocol, self.seed.unwrap_or(file.seed), file.phases),
            None => (self.protocol.unwrap_or_default(), self.seed.unwrap_or(1), self.phases()?),
        };
        let output = self.output()?;
        let plan = Plan {
            argv,
            protocol,
            target: self.target(protocol)?,
            database: self.endpoint.database,
            cluster: self.endpoint.cluster,
            seed,
            overwrites: self.force,
            phases,
            cpus: self.cpus,
            server_pid: self.server_pid,
            server_events: self.server_events,
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
            ("--mode", self.mode.is_some()),
            ("--publishers", self.publishers.is_some()),
            ("--channels", self.channels.is_some()),
            ("--subscribe", self.subscribe.is_some()),
            ("--pop", self.pop.is_some()),
            ("-t", self.tests.is_some()),
            ("-c", self.clients.is_some()),
            ("-P", self.pipeline.is_some()),
            ("--window", self.window.is_some()),
            ("-r", self.keyspace.is_some()),
            ("-d", self.value_bytes.is_some()),
            ("--prefill", self.prefill),
            ("-3", self.resp3),
            ("--tracking", self.tracking),
            ("--rate", self.rate.is_some()),
            ("--arrivals", self.arrivals.is_some()),
            ("--sweep", self.sweep.is_some()),
            ("--search", self.search.is_some()),
            ("--probe-clients", self.probe_clients.is_some()),
            ("--probe-rate", self.probe_rate.is_some()),
            ("--duration", self.duration.is_some()),
            ("-n", self.requests.is_some()),
            ("--warmup", self.warmup.is_some()),
            ("--warmup-most", self.warmup_most.is_some()),
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
        let mode = self.loop_mode()?;
        let workloads = match (&self.tests, mode.usual_workload(protocol)) {
            (Some(_), _) if mode.has_own_commands() => {
                return Err(Failure::usage(
                    "-t is given for a mode that has its own commands",
                    "leave it out",
                ));
            }
            (Some(list), _) => list.split(',').map(named).collect::<Result<_, _>>()?,
            (None, Some(usual)) => vec![usual],
            (None, None) => Workload::all(protocol),
        };
        let phase = |(at, workload)| {
            let phase = self.phase(workload, (self.prefill || self.force) && at == 0)?;
            Ok(Phase { mode: mode.clone(), ..phase })
        };
        let phases: Vec<Phase> = workloads.into_iter().enumerate().map(phase).collect::<Result<_, _>>()?;
        phases.iter().try_for_each(|phase| phase.check(&TERMS, protocol))?;
        plan::check_names(&phases)?;
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
            resp3: self.resp3,
            tracking: self.tracking,
            warmup: self.warmup.unwrap_or(length.usual_warmup()),
            warmup_most: self.warmup_most,
            length,
            probe: self.probe()?,
            ..usual
        })
    }

    /// `--mode`, or what the options of a schedule ask for.
    fn loop_mode(&self) -> Result<Mode, Failure> {
        let mode = self.named_mode(self.mode.as_deref().unwrap_or("closed"))?;
        let scheduled = self.search.is_some() || self.sweep.is_some() || self.arrivals.is_some();
        require(
            mode == Mode::Closed || !(scheduled || self.rate.is_some() && !mode.has_own_commands()),
            "--mode is given beside --rate, --arrivals, --search or --sweep",
            "leave it out",
        )?;
        let arrivals = self.arrivals.unwrap_or_default();
        match (self.rate, &self.search, &self.sweep) {
            (rate, None, None) if mode.has_own_commands() => Ok(mode.at_rate(rate)),
            (None, None, None) => {
                require(self.arrivals.is_none(), "--arrivals is given without a rate", "give --rate")?;
                Ok(mode)
            }
            (Some(rate), None, None) => Ok(Mode::Open { rate, arrivals }),
            (from, Some(limit), None) => Ok(Mode::Search { limit: *limit, arrivals, from }),
            (None, None, Some(rates)) => Ok(Mode::Sweep { rates: rates.clone(), arrivals }),
            _ => Err(Failure::usage("--sweep is given beside --rate or --search", "give one of them")),
        }
    }

    /// `--mode`, with its settings.
    fn named_mode(&self, name: &str) -> Result<Mode, Failure> {
        let settings = [
            ("--publishers", self.publishers.is_some(), "pubsub"),
            ("--channels", self.channels.is_some(), "pubsub"),
            ("--subscribe", self.subscribe.is_some(), "pubsub"),
            ("--pop", self.pop.is_some(), "blocking"),
        ];
        if let Some((option, _, mode)) = settings.iter().find(|(_, given, mode)| *given && *mode != name) {
            return Err(Failure::usage(
                format!("{option} is given without its mode"),
                format!("give --mode {mode}"),
            ));
        }
        match name {
            "closed" => Ok(Mode::Closed),
            "idle" => Ok(Mode::Idle),
            "churn" => Ok(Mode::Churn),
            "pubsub" => self.pubsub().map(Mode::PubSub),
            "blocking" => self.blocking().map(Mode::Blocking),
            _ => Err(Failure::usage(
                format!("--mode cannot be '{name}'"),
                "give closed, idle, churn, pubsub or blocking",
            )),
        }
    }

    fn probe(&self) -> Result<Option<Probe>, Failure> {
        if (self.probe_clients, self.probe_rate) == (None, None) {
            return Ok(None);
        }
        let usual = Probe::default();
        let probe = Probe {
            clients: self.probe_clients.unwrap_or(usual.clients),
            rate: self.probe_rate.unwrap_or(usual.rate),
        };
        probe.check("--probe-clients", "--probe-rate").map(Some)
    }

    fn pubsub(&self) -> Result<pubsub::Setting, Failure> {
        let usual = pubsub::Setting::default();
        let subscribe = |name: &String| known(name, "--subscribe", "channels, patterns or shards");
        Ok(pubsub::Setting {
            publishers: self.publishers.unwrap_or(usual.publishers),
            channels: self.channels.unwrap_or(usual.channels),
            subscribe: self.subscribe.as_ref().map_or(Ok(usual.subscribe), subscribe)?,
            ..usual
        })
    }

    fn blocking(&self) -> Result<blocking::Setting, Failure> {
        let usual = blocking::Setting::default();
        let pop = |name: &String| known(name, "--pop", "blpop, bzpopmin or xreadgroup");
        Ok(blocking::Setting { command: self.pop.as_ref().map_or(Ok(usual.command), pop)?, ..usual })
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
        let endpoint = &self.endpoint;
        endpoint.check()?;
        require(
            endpoint.tls || endpoint.tls_wanted == tls::Wanted::default(),
            "options of TLS are given without it",
            "give --tls or a rediss:// URI, too",
        )?;
        let more = [
            ("-a", endpoint.password.is_some()),
            ("--dbnum", endpoint.database != 0),
            ("--cluster", endpoint.cluster),
            ("--tls", endpoint.tls),
        ];
        if let Some((option, _)) = more.iter().find(|(_, given)| *given && protocol == Protocol::Memcached) {
            return Err(Failure::usage(
                format!("{option} is given for memcached, which is spoken without it here"),
                "leave it out",
            ));
        }
        let greeting = [endpoint.login(), endpoint.select()];
        endpoint.target(protocol.port(), greeting.into_iter().flatten().collect())
    }
}
