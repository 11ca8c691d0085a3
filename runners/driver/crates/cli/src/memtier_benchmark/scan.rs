//! `--scan-incremental-iteration`: a SCAN that goes on at the cursor of each reply.

use crate::memtier_benchmark::commands::{Command, Commands};
use crate::memtier_benchmark::options::{Options, Text};
use protocol::script::ScanLimit;
use protocol::template::CURSOR;
use text::checks::require;
use text::failure::Failure;
use workload::order::Order;

impl Options {
    /// The request that begins a scan, and that which goes on with it, in rows of their own.
    pub fn scan(&self, texts: &[Text]) -> Result<Commands, Failure> {
        const OPTION: &str = "--scan-incremental-iteration is given";
        let refuse =
            |holds: bool, what: &str, remedy: &str| require(holds, &format!("{OPTION} {what}"), remedy);
        refuse(self.load.pipeline == 1, "with a pipeline", "give --pipeline 1")?;
        refuse(!self.server.cluster, "with --cluster-mode", "leave one of them out")?;
        refuse(texts.len() == 1, "without one --command", "give one, as in --command 'SCAN 0 COUNT 100'")?;
        let mut commands = self.arbitrary(texts)?;
        let is_scan = commands.rows[0] == "SCAN" && commands.list[0].words.len() > 1;
        refuse(is_scan, "with another command", "give --command a SCAN with its cursor, as in SCAN 0")?;
        let mut next = Command { row: 1, ..commands.list[0].clone() };
        next.words[1] = CURSOR.as_bytes().to_vec();
        commands.list.push(next);
        Ok(Commands {
            rows: vec!["SCAN 0".to_owned(), "SCAN <cursor>".to_owned()],
            order: Order::Scan(ScanLimit(Some(self.load.scan_most).filter(|most| *most > 0))),
            ..commands
        })
    }
}
