//! The options of `speedbench run`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;

use crate::arguments::Given;
use crate::endpoint::{Endpoint, Place, TlsOptions};
use crate::reconnecting::ReconnectOptions;
use crate::run::ladder::LadderOptions;
use crate::run::ramp::{Bend, Swing, clients, rate, shape};
use crate::run::values::{
    Prefill, cpus, events, limit, metrics_address, milliseconds, part, prefill, protocol, rates, servers,
    speed, start,
};
use crate::values::{amount, bytes, count, named, seconds};
use engine::job::Window;
use engine::part::Part;
use engine::recovery::Recovery;
use engine::schedule::ArrivalProcess;
use modes::replay::Speed;
use network::target::Target;
use recording::format::Format;
use text::checks::require;
use text::failure::Failure;
use workload::file::{self, WorkloadFile};
use workload::mode::Limit;
use workload::phase::Phase;
use workload::plan::{Output, Plan};
use workload::protocol_name::ProtocolName;

/// How `--reconnect-on-error` goes on unless other options say more.
const USUAL_RECOVERY: Recovery = Recovery {
    attempts: None,
    pause: Duration::from_millis(10),
    factor: 2.0,
    longest: Duration::from_secs(1),
    connect_timeout: Duration::from_secs(1),
};

#[derive(Debug, Args)]
pub struct RunOptions {
    #[command(flatten)]
    endpoint: Endpoint,
    /// memcached servers over which keys are spread by ketama, as in HOST:PORT,HOST:PORT; replaces -h, -p, -s and -u
    #[arg(long, value_name = "LIST", value_parser = servers, help_heading = "Server")]
    servers: Option<::std::vec::Vec<Place>>,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    ladder: LadderOptions,
    #[command(flatten)]
    reconnect: ReconnectOptions,
    #[command(flatten)]
    frame: FrameOptions,
    #[command(flatten)]
    one: OneServerOptions,
}

/// What a workload file says instead.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadOptions {
    /// resp or memcached (resp)
    #[arg(long, value_name = "NAME", value_parser = protocol)]
    pub protocol: Option<ProtocolName>,
    /// closed, idle, churn, pubsub or blocking; README.md says what connections do in each (closed)
    #[arg(long, value_name = "NAME")]
    pub mode: Option<String>,
    /// play the requests of this recording: MONITOR's output, an append-only file, or a cache trace as CSV
    #[arg(long, value_name = "FILE")]
    pub replay: Option<String>,
    /// how many times as fast as it was recorded, or fast: as the server answers (1)
    #[arg(long, value_name = "N", value_parser = speed)]
    pub speed: Option<Speed>,
    /// monitor, aof, twitter or kvcache (told by how the file begins)
    #[arg(long, value_name = "FORMAT", value_parser = |text: &str| named::<Format>("--format", text, "monitor, aof, twitter or kvcache"))]
    pub format: Option<Format>,
    /// publishers of mode pubsub (1)
    #[arg(long, value_name = "N")]
    pub publishers: Option<usize>,
    /// channels of mode pubsub (1)
    #[arg(long, value_name = "N")]
    pub channels: Option<usize>,
    /// how mode pubsub subscribes: channels, patterns or shards (channels)
    #[arg(long, value_name = "KIND")]
    pub subscribe: Option<String>,
    /// command of mode blocking: blpop, bzpopmin or xreadgroup (blpop)
    #[arg(long, value_name = "COMMAND")]
    pub pop: Option<String>,
    /// of ping,set,get,incr, in this order (all); a mix with weights is a test, too: get:9+set:1
    #[arg(short = 't', value_name = "TESTS")]
    pub tests: Option<String>,
    /// connections (50), or A..B: all are open, and of them first A send, then more or fewer, at last B
    #[arg(short = 'c', value_name = "CLIENTS", value_parser = clients)]
    pub clients: Option<Swing<usize>>,
    /// requests per batch of a connection (1)
    #[arg(short = 'P', value_name = "PIPELINE", value_parser = |text: &str| count::<usize>("-P", text))]
    pub pipeline: Option<usize>,
    /// keys (1)
    #[arg(short = 'r', value_name = "KEYSPACE", value_parser = |text: &str| count::<u64>("-r", text))]
    pub keyspace: Option<u64>,
    /// bytes of a key of a named test, at least 16 (16; counters 20)
    #[arg(long, value_name = "N", value_parser = |text: &str| bytes("--key-bytes", text))]
    pub key_bytes: Option<usize>,
    /// bytes of a value (3)
    #[arg(short = 'd', value_name = "VALUE_BYTES", value_parser = |text: &str| bytes("-d", text))]
    pub value_bytes: Option<usize>,
    /// batch: send when all replies are in; rolling: after each (batch)
    #[arg(long, value_name = "KIND", value_parser = |text: &str| named::<Window>("--window", text, "batch or rolling"))]
    pub window: Option<Window>,
    /// speak RESP3
    #[arg(short = '3')]
    pub resp3: bool,
    /// ask for client tracking, with -3: invalidations are counted
    #[arg(long)]
    pub tracking: bool,
    /// open loop: R requests per second of all connections, or A..B: changing from A to B; -P limits those in flight on each
    #[arg(long, value_name = "R", value_parser = rate)]
    pub rate: Option<Swing<f64>>,
    /// how --rate A..B or -c A..B changes: line, steps, sine:PERIODS, or burst:PERIODS:SHARE at B (line)
    #[arg(long, value_name = "SHAPE", value_parser = shape)]
    pub shape: Option<Bend>,
    /// parts of the window that have results of their own, with A..B (10)
    #[arg(long, value_name = "N")]
    pub steps: Option<u32>,
    /// fixed, or poisson: random gaps (fixed)
    #[arg(long, value_name = "PROCESS", value_parser = |text: &str| named::<ArrivalProcess>("--arrivals", text, "fixed or poisson"))]
    pub arrivals: Option<ArrivalProcess>,
    /// each of these rates, as in 10000,20000
    #[arg(long, value_name = "LIST", value_parser = rates)]
    pub sweep: Option<::std::vec::Vec<f64>>,
    /// the highest rate that keeps it, as in p99:1000us; begins at --rate
    #[arg(long, value_name = "LIMIT", value_parser = limit)]
    pub search: Option<Limit>,
    /// connections that ask at a low rate beside the load (1)
    #[arg(long, value_name = "N")]
    pub probe_clients: Option<usize>,
    /// requests per second of all of them (100); either asks for a probe
    #[arg(long, value_name = "R", value_parser = |text: &str| amount("--probe-rate", text))]
    pub probe_rate: Option<f64>,
    /// seconds (5)
    #[arg(long, value_name = "S", value_parser = |text: &str| seconds("--duration", text))]
    pub duration: Option<Duration>,
    /// exactly so many requests instead
    #[arg(short = 'n', value_name = "REQUESTS", value_parser = |text: &str| count::<u64>("-n", text))]
    pub requests: Option<u64>,
    /// seconds of the same load before it (0.5; with -n 0)
    #[arg(long, value_name = "S", value_parser = |text: &str| seconds("--warmup", text))]
    pub warmup: Option<Duration>,
    /// go on with it until the load is steady, but no longer than this
    #[arg(long, value_name = "S", value_parser = |text: &str| seconds("--warmup-most", text))]
    pub warmup_most: Option<Duration>,
    /// driver threads (1)
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// How a load begins, and what of its end is an error: `run` and `duel` share it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct FrameOptions {
    /// phases of load as TOML, or JSON (*.json, or - for stdin), instead of the options of Load
    #[arg(long, value_name = "FILE")]
    workload: Option<String>,
    /// folder of the recordings that the workload file names (that of the file)
    #[arg(long, value_name = "FOLDER")]
    recordings: Option<PathBuf>,
    /// the same seed sends the same requests (1)
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// first set every key once; the server must hold no keys, unless it is --prefill=force
    #[arg(
        long,
        value_name = "force",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = prefill
    )]
    pub prefill: Option<Prefill>,
    /// pin thread i to CPU i of the list, as in 1,3
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<::std::vec::Vec<usize>>,
    /// count error replies instead of giving up
    #[arg(long)]
    pub allow_errors: bool,
}

/// How the load on one server is measured, and its result written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct OneServerOptions {
    /// width of the slices (100)
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    slice_ms: Option<u64>,
    /// read the CPU time of this process, too
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// of instructions,cycles,task-clock,page-faults,context-switches: let the kernel count them
    #[arg(long, value_name = "LIST", value_parser = events)]
    server_events: Option<::std::vec::Vec<&'static str>>,
    /// one document, schema speedbench.v1, instead of a table
    #[arg(long)]
    json: bool,
    /// one row per test instead of a table
    #[arg(long)]
    csv: bool,
    /// begin the load at this time, as in 2026-11-28T18:00:00Z, or at so many seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = start)]
    start_at: Option<SystemTime>,
    /// take the I-th of N parts of the load, which as many machines share; `join` makes one result of theirs
    #[arg(long, value_name = "I/N", value_parser = part)]
    part: Option<Part>,
    /// latencies of each second, as a log of HdrHistogram intervals
    #[arg(long, value_name = "FILE")]
    hdr_log: Option<String>,
    /// the result as a page that stands alone, too, with curves
    #[arg(long, value_name = "FILE")]
    html: Option<String>,
    /// show rates, latencies and errors on the terminal while the load runs
    #[arg(long)]
    live: bool,
    /// serve them as metrics at http://ADDRESS/metrics while it runs; ADDRESS is IP:PORT, or a port of 127.0.0.1
    #[arg(long, value_name = "ADDRESS", value_parser = metrics_address)]
    prometheus: Option<SocketAddr>,
}

/// What is sent, by options or by a file.
pub struct Asked {
    pub protocol: ProtocolName,
    pub seed: u64,
    pub phases: Vec<Phase>,
}

impl RunOptions {
    /// The plan that the options stand for, and the ladder of it; `argv` is the command line as it may be published.
    pub fn plan(self, given: &Given, argv: Vec<String>) -> Result<(Plan, LadderOptions), Failure> {
        let RunOptions { endpoint, servers, load, ladder, reconnect, frame, one } = self;
        let Asked { protocol, seed, phases } = frame.asked(&load, given)?;
        let (first, others) = match servers {
            None => (endpoint, Vec::new()),
            Some(places) => several(&endpoint, places)?,
        };
        let endpoint = first;
        let others =
            others.iter().map(|endpoint| target(endpoint, protocol)).collect::<Result<Vec<_>, _>>()?;
        require(
            others.is_empty() || !ladder.starts_servers(),
            "--fresh-server starts one server, and --servers names several",
            "leave one of them out",
        )?;
        let plan = Plan {
            argv,
            protocol,
            target: target(&endpoint, protocol)?,
            others,
            database: endpoint.database(),
            cluster: endpoint.access.cluster,
            seed,
            part: one.part,
            start_at: one.start_at,
            overwrites: frame.prefill == Some(Prefill::Force),
            phases,
            output: one.output()?,
            cpus: frame.cpus.unwrap_or_default(),
            server_pid: one.server_pid,
            server_events: one.server_events.unwrap_or_default(),
            slice_ms: one.slice_ms.unwrap_or(100),
            allow_errors: frame.allow_errors,
            recovery: reconnect.recovery(USUAL_RECOVERY),
            intervals: false,
            hdr_log: one.hdr_log,
            html: one.html,
            live: one.live,
            metrics_at: one.prometheus,
        };
        plan.check()?;
        Ok((plan, ladder))
    }
}

/// One endpoint for each of `places`, the first of them and the others, reached as `endpoint` says.
fn several(endpoint: &Endpoint, places: Vec<Place>) -> Result<(Endpoint, Vec<Endpoint>), Failure> {
    require(
        endpoint.has_no_place(),
        "--servers is given beside -h, -p, -s or -u",
        "write all servers into --servers",
    )?;
    let mut endpoints = places.into_iter().map(|place| Endpoint::new(place, endpoint.access.clone()));
    let first =
        endpoints.next().ok_or_else(|| Failure::usage("--servers names none", "give HOST:PORT,..."))?;
    Ok((first, endpoints.collect()))
}

impl OneServerOptions {
    fn output(&self) -> Result<Output, Failure> {
        match (self.json, self.csv) {
            (true, true) => Err(Failure::usage("--json and --csv are both given", "give one of them")),
            (true, false) => Ok(Output::Json),
            (false, true) => Ok(Output::Csv),
            (false, false) => Ok(Output::Table),
        }
    }
}

impl FrameOptions {
    /// What a workload file says, or else `load`.
    pub fn asked(&self, load: &LoadOptions, given: &Given) -> Result<Asked, Failure> {
        if let Some(path) = &self.workload {
            let WorkloadFile { protocol, seed, phases } = self.read(path, given)?;
            return Ok(Asked { protocol, seed: self.seed.unwrap_or(seed), phases });
        }
        require(
            self.recordings.is_none(),
            "--recordings is given without --workload",
            "of one recording give the path: --replay FILE",
        )?;
        let phases = load.phases(self.prefill.is_some())?;
        Ok(Asked { protocol: load.protocol.unwrap_or_default(), seed: self.seed.unwrap_or(1), phases })
    }

    /// The workload file, beside which options that say the same are refused.
    fn read(&self, path: &str, given: &Given) -> Result<WorkloadFile, Failure> {
        let prefill = (self.prefill == Some(Prefill::EmptyServer)).then(|| "--prefill".to_owned());
        match given.first_of::<LoadOptions>().or(prefill) {
            None => file::read(path, self.recordings.as_deref()),
            Some(option) => {
                Err(Failure::usage(format!("{option} is given beside --workload"), "write it into the file"))
            }
        }
    }
}

/// The server at `endpoint`, unless that has options which do not go with each other or with `protocol`.
pub fn target(endpoint: &Endpoint, protocol: ProtocolName) -> Result<Target, Failure> {
    endpoint.check()?;
    require(
        endpoint.uses_tls() || endpoint.access.tls_options == TlsOptions::default(),
        "options of TLS are given without it",
        "give --tls or a rediss:// URI, too",
    )?;
    let for_resp = [("--dbnum", endpoint.database() != 0), ("--cluster", endpoint.access.cluster)];
    if let Some((option, _)) =
        for_resp.iter().find(|(_, given)| *given && protocol == ProtocolName::Memcached)
    {
        return Err(Failure::usage(
            format!("{option} is given for memcached, which is spoken without it here"),
            "leave it out",
        ));
    }
    let greeting = [endpoint.login(), endpoint.select()];
    endpoint.target(protocol, greeting.into_iter().flatten().collect())
}
