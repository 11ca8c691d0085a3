//! The options of `speedbench duel`.

use clap::Args;

use crate::arguments::Given;
use crate::endpoint::{Access, Endpoint, Place};
use crate::run::options::{Asked, FrameOptions, LoadOptions, target};
use crate::run::values::{Prefill, events, milliseconds};
use duel::plan::{DuelPlan, WARMUP_SLICE_MS};
use duel::sides::{Side, Sides};
use text::checks::require;
use text::failure::Failure;
use workload::plan::{Output, Plan};

#[derive(Debug, Args)]
pub struct DuelOptions {
    #[command(flatten)]
    pub pair: PairOptions,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    frame: FrameOptions,
}

/// The two servers, and how they are measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "Duel")]
pub struct PairOptions {
    /// one server: HOST:PORT, a port, the path of a socket or a URI as of `run -u`
    #[arg(long, value_name = "ADDRESS", value_parser = |text: &str| Place::parse("--base", text))]
    base: Option<Place>,
    /// the other one, which is judged
    #[arg(long, value_name = "ADDRESS", value_parser = |text: &str| Place::parse("--head", text))]
    head: Option<Place>,
    /// read the CPU time of this process: the server of --base
    #[arg(long, value_name = "PID")]
    base_pid: Option<u32>,
    /// and of this: the server of --head
    #[arg(long, value_name = "PID")]
    head_pid: Option<u32>,
    /// of instructions,cycles,task-clock,page-faults,context-switches: let the kernel count them for both
    #[arg(long, value_name = "LIST", value_parser = events)]
    server_events: Option<::std::vec::Vec<&'static str>>,
    /// width of the slices (20 to 100, from rate and latency in the warm-up)
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    slice_ms: Option<u64>,
    /// one document, schema speedbench.duel.v1, instead of a table
    #[arg(long)]
    pub json: bool,
}

impl DuelOptions {
    /// The plan that the options stand for; `argv` is the command line as it may be published.
    pub fn plan(self, given: &Given, argv: Vec<String>) -> Result<DuelPlan, Failure> {
        let DuelOptions { pair, access, load, frame } = self;
        require(!access.cluster, "--cluster is given for a duel", "a duel is of two single servers")?;
        let Asked { protocol, seed, phases } = frame.asked(&load, given)?;
        let side = |side: Side| {
            let (place, pid) = match side {
                Side::Base => (&pair.base, pair.base_pid),
                Side::Head => (&pair.head, pair.head_pid),
            };
            let place = place.clone().ok_or_else(|| {
                Failure::usage(format!("--{} is not given", side.name()), "a duel needs --base and --head")
            })?;
            let endpoint = Endpoint::new(place, access.clone());
            Ok(Plan {
                argv: argv.clone(),
                protocol,
                target: target(&endpoint, protocol)?,
                others: Vec::new(),
                database: endpoint.database(),
                cluster: false,
                seed,
                part: None,
                start_at: None,
                overwrites: frame.prefill == Some(Prefill::Force),
                phases: phases.clone(),
                output: if pair.json { Output::Json } else { Output::Table },
                cpus: frame.cpus.clone().unwrap_or_default(),
                server_pid: pid,
                server_events: pair.server_events.clone().unwrap_or_default(),
                slice_ms: WARMUP_SLICE_MS,
                allow_errors: frame.allow_errors,
                recovery: None,
                intervals: false,
                hdr_log: None,
                html: None,
                live: false,
                metrics_at: None,
            })
        };
        let plan = DuelPlan { sides: Sides::try_each(side)?, slice_ms: pair.slice_ms };
        plan.check()?;
        Ok(plan)
    }
}
