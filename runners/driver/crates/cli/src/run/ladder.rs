//! The options of a ladder: the same load at several values of one setting.

use clap::Args;

use crate::arguments::Given;
use crate::run::names::TERMS;
use report::ladder;
use session::fresh_server;
use session::ladder::LadderRun;
use text::checks::require;
use text::failure::Failure;
use workload::ladder::Ladder;
use workload::plan::{Output, Plan};

#[derive(Debug, Args)]
#[command(next_help_heading = "Ladder")]
pub struct LadderOptions {
    /// run at each value of clients, pipeline, value-bytes, key-bytes, keys or rate, in shuffled order, as in clients=1,2,5,10..300
    #[arg(long, value_name = "AXIS=LIST", value_parser = Ladder::parse)]
    ladder: Option<Ladder>,
    /// start this server for each rung, with {port} or {socket}, and {data}; else one server serves all
    #[arg(long, value_name = "COMMAND")]
    fresh_server: Option<String>,
}

impl LadderOptions {
    /// Whether each rung gets a server of its own.
    pub fn starts_servers(&self) -> bool {
        self.fresh_server.is_some()
    }

    /// The result of the ladder of `plan` as it is written; none when no ladder is asked for.
    pub fn run(&self, plan: &Plan, given: &Given) -> Result<Option<String>, Failure> {
        let Some(ladder) = &self.ladder else {
            require(self.fresh_server.is_none(), "--fresh-server is given without --ladder", "give both")?;
            return Ok(None);
        };
        self.check(plan, given)?;
        let plans = ladder.plans(plan, &TERMS)?;
        let run = LadderRun { plan, ladder, plans, fresh_server: self.fresh_server.as_deref() };
        let document = session::ladder::run(&run)?;
        Ok(Some(match plan.output {
            Output::Json => document.to_json() + "\n",
            Output::Csv => ladder::rows(&document),
            Output::Table => ladder::table(&document),
        }))
    }

    fn check(&self, plan: &Plan, given: &Given) -> Result<(), Failure> {
        require(
            plan.part.is_none() && plan.start_at.is_none(),
            "--part or --start-at is given beside --ladder",
            "leave one of them out",
        )?;
        require(
            plan.hdr_log.is_none(),
            "--hdr-log is given beside --ladder",
            "give --json, which has all histograms",
        )?;
        require(
            !plan.has_views() && plan.html.is_none(),
            "--live, --prometheus or --html is given beside --ladder",
            "leave one of them out",
        )?;
        let Some(command) = &self.fresh_server else { return Ok(()) };
        fresh_server::check(command)?;
        let another = ["host", "port", "socket", "uri", "server_pid", "cluster"];
        match another.into_iter().find(|id| given.was_given(id)) {
            None => Ok(()),
            Some(id) => Err(Failure::usage(
                format!(
                    "{} is given beside --fresh-server, whose address the driver chooses",
                    given.spelling_of(id)
                ),
                "leave it out",
            )),
        }
    }
}
