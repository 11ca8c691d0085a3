//! The options of `speedbench run`, as they were given.

use std::ffi::OsString;
use std::time::Duration;

use crate::command_line::{CommandLine, shown};
use crate::endpoint::Endpoint;
use crate::run::help::SEE_HELP;
use crate::run::values::{cpus, events, law, limit, protocol, rates, seconds, value, window};
use engine::job::Window;
use engine::schedule::{Law, check_rate};
use network::target::Target;
use network::tls;
use text::checks::require;
use text::failure::Failure;
use workload::file::{self, WorkloadFile};
use workload::mode::Limit;
use workload::plan::{Output, Plan};
use workload::protocol_name::Protocol;

#[derive(Debug)]
pub enum Command {
    Run(Box<Plan>),
    Help,
    Version,
}

/// What was given, before defaults and checks.
#[derive(Default)]
pub struct Given {
    pub protocol: Option<Protocol>,
    endpoint: Endpoint,
    workload: Option<String>,
    pub mode: Option<String>,
    pub publishers: Option<usize>,
    pub channels: Option<usize>,
    pub subscribe: Option<String>,
    pub pop: Option<String>,
    pub tests: Option<String>,
    pub clients: Option<usize>,
    pub pipeline: Option<usize>,
    pub window: Option<Window>,
    pub keyspace: Option<u64>,
    pub value_bytes: Option<usize>,
    seed: Option<u64>,
    pub prefill: bool,
    pub force: bool,
    pub resp3: bool,
    pub tracking: bool,
    pub rate: Option<f64>,
    pub arrivals: Option<Law>,
    pub sweep: Option<Vec<f64>>,
    pub search: Option<Limit>,
    pub probe_clients: Option<usize>,
    pub probe_rate: Option<f64>,
    pub duration: Option<Duration>,
    pub requests: Option<u64>,
    pub warmup: Option<Duration>,
    pub warmup_most: Option<Duration>,
    slice_ms: Option<u64>,
    pub threads: Option<usize>,
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
            None => file::read(path),
            Some((option, _)) => {
                Err(Failure::usage(format!("{option} is given beside --workload"), "write it into the file"))
            }
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
