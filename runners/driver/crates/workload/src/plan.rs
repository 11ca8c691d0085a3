//! What a run is asked to do, checked: a server, and phases of load on it.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use crate::mode::Mode;
use crate::phase::{Length, Phase};
use crate::protocol_name::ProtocolName;
use engine::part::Part;
use engine::recovery::Recovery;
use engine::steadiness::FEWEST_SLICES;
use network::target::{Address, Target};
use text::checks::require;
use text::failure::Failure;
use text::units::{NS_PER_MS, ns};

/// The most keys that several servers may share: which server has a key takes four bytes of memory.
const MOST_SPREAD_KEYS: u64 = 1 << 28;
/// A start is at most so far ahead.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone)]
pub struct Plan {
    /// The command line as it may be published: without passwords.
    pub argv: Vec<String>,
    pub protocol: ProtocolName,
    pub target: Target,
    /// More servers of memcached, over which the keys are spread with the target; of one kind with it but for their addresses.
    pub others: Vec<Target>,
    /// The database whose keys are counted.
    pub database: u32,
    /// Whether the target is one node of a cluster, all of whose masters take a part of the load.
    pub cluster: bool,
    pub seed: u64,
    /// The part of the load that this machine takes; none: all of it.
    pub part: Option<Part>,
    /// When the load begins; none: as soon as it can.
    pub start_at: Option<SystemTime>,
    /// Whether prefills may overwrite what the server holds.
    pub overwrites: bool,
    /// CPU of each thread; empty when they are not pinned.
    pub cpus: Vec<usize>,
    pub server_pid: Option<u32>,
    /// What the kernel is to count of the server.
    pub server_events: Vec<&'static str>,
    pub slice_ms: u64,
    pub allow_errors: bool,
    /// How the load goes on when connections are lost; none: that ends the run.
    pub recovery: Option<Recovery>,
    pub output: Output,
    /// Whether results keep the latencies of each second.
    pub intervals: bool,
    /// The file that gets the latencies of each second.
    pub hdr_log: Option<String>,
    /// The file that gets the result as a page.
    pub html: Option<String>,
    /// Whether a screen shows the load while it runs.
    pub live: bool,
    /// Where metrics of the load are served while it runs.
    pub metrics_at: Option<SocketAddr>,
    /// Run in this order; at least one.
    pub phases: Vec<Phase>,
}

/// How the result is written to stdout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    #[default]
    Table,
    Json,
    Csv,
}

impl Plan {
    /// Slices per interval of the results or line of the log, about a second of them.
    pub fn interval_slices(&self) -> Option<usize> {
        (self.intervals || self.hdr_log.is_some()).then(|| (1000 / self.slice_ms).max(1) as usize)
    }

    /// Usage failures that no single phase has.
    pub fn check(&self) -> Result<(), Failure> {
        let threads = self.most_threads();
        self.check_start()?;
        self.check_part()?;
        self.check_servers()?;
        require(
            !self.has_views() || self.phases.iter().all(|phase| phase.mode.sends()),
            "--live or --prometheus is given for a mode that only opens connections, waits or plays a recording",
            "give it in a closed or open loop",
        )?;
        self.phases.iter().try_for_each(|phase| self.check_steps(phase))?;
        require(
            !self.cluster || self.phases.iter().all(|phase| !phase.mode.has_own_commands()),
            "modes pubsub, blocking and replay are for one server",
            "leave --cluster out",
        )?;
        require(
            !self.cluster || self.phases.iter().all(|phase| phase.keys.bytes.is_none()),
            "keys of a cluster have tags, so their length cannot be chosen",
            "leave the bytes of keys or --cluster out",
        )?;
        require(
            self.recovery.is_none() || self.phases.iter().all(|phase| phase.mode.sends()),
            "--reconnect-on-error is given for a mode that only opens connections or waits",
            "give it in a closed or open loop",
        )?;
        require(
            self.recovery.is_none() || self.phases.iter().all(|phase| phase.verify == 0.0),
            "--reconnect-on-error is given beside verify, which must see every reply",
            "leave one of them out",
        )?;
        require(
            self.recovery.is_none() || !self.phases.iter().any(|phase| phase.mode.ramps_clients()),
            "--reconnect-on-error is given beside a changing number of connections",
            "leave one of them out",
        )?;
        require(
            self.database == 0 || self.phases.iter().all(|phase| !matches!(phase.mode, Mode::Replay(_))),
            "--dbnum is given beside a recording, whose requests have databases of their own",
            "leave it out",
        )?;
        require(
            self.cpus.is_empty() || self.cpus.len() >= threads,
            "--cpus names fewer CPUs than there are threads",
            "name one CPU per thread",
        )?;
        require(
            (1..=3_600_000).contains(&self.slice_ms),
            "--slice-ms is outside of 1 to 3600000",
            "100 is usual",
        )?;
        let shortest = Duration::from_millis(FEWEST_SLICES * self.slice_ms);
        require(
            self.phases.iter().all(|phase| phase.warmup_most.is_none_or(|most| most >= shortest)),
            &format!("a warm-up until the load is steady cannot end within {shortest:?}"),
            "allow more time, or narrower slices",
        )?;
        let pid_ok = self.server_pid.is_none_or(|pid| (1..=1 << 22).contains(&pid));
        require(
            self.server_events.is_empty() || self.server_pid.is_some(),
            "--server-events needs the process",
            "give its id with --server-pid",
        )?;
        require(pid_ok, "--server-pid is not a process id", "give the pid of the server")
    }

    /// All servers: one, or those over which the keys are spread.
    pub fn servers(&self) -> impl Iterator<Item = &Target> + Clone {
        [&self.target].into_iter().chain(&self.others)
    }

    /// The addresses of all servers.
    pub fn address(&self) -> String {
        self.servers().map(|server| server.address.to_string()).collect::<Vec<_>>().join(",")
    }

    /// Whether each server gets the keys that belong to it: of memcached always, in a cluster where keys are prefilled or
    /// counted. The keys of other loads of a cluster have a tag of the node that is asked for them.
    pub fn spreads_keys(&self) -> bool {
        let are_counted = |phase: &Phase| phase.prefill || phase.expect.keys.is_some();
        !self.others.is_empty() || self.cluster && self.phases.iter().any(are_counted)
    }

    /// What several servers cannot share.
    fn check_servers(&self) -> Result<(), Failure> {
        for phase in self.phases.iter().filter(|_| self.spreads_keys()) {
            require(
                phase.keys.count <= MOST_SPREAD_KEYS,
                &format!("-r is above {MOST_SPREAD_KEYS}, which is too many to spread over servers"),
                "lower it: each takes 4 bytes here",
            )?;
            phase.workload.key_head(&phase.places(false))?;
            for filling in phase.fillings().values().filter(|_| phase.prefill) {
                filling.key_head(&phase.places(false))?;
            }
        }
        if self.others.is_empty() {
            return Ok(());
        }
        require(self.protocol == ProtocolName::Memcached, "--servers is given for RESP", "give --cluster")?;
        let addresses: Vec<&Address> = self.servers().map(|server| &server.address).collect();
        if let Some((_, twice)) =
            addresses.iter().enumerate().find(|(at, address)| addresses[..*at].contains(address))
        {
            return Err(Failure::usage(format!("--servers names {twice} twice"), "name each server once"));
        }
        for phase in &self.phases {
            require(
                matches!(phase.mode, Mode::Idle | Mode::Churn) || phase.mode.sends(),
                "--servers is given for a recording",
                "give one server, with -h and -p",
            )?;
        }
        Ok(())
    }

    /// Whether somebody looks at the load while it runs.
    pub fn has_views(&self) -> bool {
        self.live || self.metrics_at.is_some()
    }

    fn check_start(&self) -> Result<(), Failure> {
        let Some(start_at) = self.start_at else { return Ok(()) };
        let ahead = start_at.duration_since(SystemTime::now()).unwrap_or_default();
        require(!ahead.is_zero(), "the time of --start-at is over", "give one that is still to come")?;
        require(
            ahead <= LONGEST_WAIT,
            "the time of --start-at is more than a day ahead",
            "give a time, or seconds since 1970, as `date +%s` prints them",
        )?;
        require(
            self.phases.len() == 1 && self.phases[0].mode.sends(),
            "--start-at is for one test of a closed or open loop",
            "name one with -t",
        )
    }

    /// The steps of a ramp have whole slices, and the latencies of theirs are those of the intervals.
    fn check_steps(&self, phase: &Phase) -> Result<(), Failure> {
        let (Mode::Ramp { setting, .. }, Length::Lasting(window)) = (&phase.mode, phase.length) else {
            return Ok(());
        };
        let whole = ns(window).is_multiple_of(u64::from(setting.steps) * self.slice_ms * NS_PER_MS);
        require(
            whole,
            &format!("{window:?} have no {} steps of whole slices of {} ms", setting.steps, self.slice_ms),
            "choose --duration, --steps and --slice-ms so that they do",
        )?;
        require(
            self.hdr_log.is_none(),
            "--hdr-log is given beside a ramp",
            "give --json, which has the histogram of each step",
        )
    }

    /// What several machines cannot share: results of which are not the sum of those of the machines.
    fn check_part(&self) -> Result<(), Failure> {
        let Some(part) = self.part else { return Ok(()) };
        let [phase] = self.phases.as_slice() else {
            return Err(Failure::usage("--part is for one test", "name one with -t"));
        };
        require(
            phase.mode.is_one_load(),
            "--part is for closed loops and for open loops with one rate or ramp",
            "leave the mode, --search or --sweep out",
        )?;
        let own = part.own(phase.clients).len();
        require(
            phase.threads <= own,
            &format!("part {} of {} has {own} of {} connections", part.number, part.of, phase.clients),
            "raise -c, which counts those of all machines, or lower --threads",
        )?;
        let alone = [
            ("--warmup-most", phase.warmup_most.is_some()),
            ("a probe", phase.probe.is_some()),
            ("a changing number of connections", phase.mode.ramps_clients()),
            ("--reconnect-on-error", self.recovery.is_some()),
        ];
        match alone.iter().find(|(_, is_there)| *is_there) {
            None => Ok(()),
            Some((option, _)) => {
                Err(Failure::usage(format!("{option} is given beside --part"), "leave it out"))
            }
        }
    }

    /// The numbers of the connections that this machine opens, of `clients`.
    pub fn own_clients(&self, clients: usize) -> Range<usize> {
        self.part.map_or(0..clients, |part| part.own(clients))
    }

    /// Whether this machine stores the keys that its load needs; if not, that of the first part does.
    pub fn fills(&self) -> bool {
        self.part.is_none_or(|part| part.number == 1)
    }

    pub fn most_threads(&self) -> usize {
        self.phases.iter().map(|phase| phase.threads).max().unwrap_or(1)
    }
}

/// A usage failure when two phases have the same name, as results are identified by it.
pub fn check_names(phases: &[Phase]) -> Result<(), Failure> {
    let twice = |(at, phase): &(usize, &Phase)| phases[..*at].iter().any(|other| other.name == phase.name);
    match phases.iter().enumerate().find(twice) {
        None => Ok(()),
        Some((_, phase)) => Err(Failure::usage(
            format!("two tests or phases are called {}", phase.name),
            "leave one out, or give it a name of its own in a workload file",
        )),
    }
}
