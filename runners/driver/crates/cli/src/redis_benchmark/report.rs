//! Results as they are measured: text, one line, or CSV; and progress for a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::redis_benchmark::formats;
use crate::redis_benchmark::options::Options;
use crate::redis_benchmark::planned::PlannedTest;
use crate::redis_benchmark::server::ServerSettings;
use engine::outcome::Outcome;
use engine::progress::Progress;
use engine::total::Total;
use text::failure::Failure;
use text::output::print;
use text::units::seconds;

pub struct Printer {
    configured: ServerSettings,
    /// Whether the header of the CSV is still to come: it is no result, so it waits for the first.
    header: bool,
    shows_progress: bool,
    /// Length of the progress line that stands on the terminal.
    standing: usize,
    /// The progress that was shown last, and when.
    last: Progress,
    last_at: Option<Instant>,
    began: Instant,
}

impl Printer {
    pub fn new(options: &Options, configured: ServerSettings) -> Printer {
        Printer {
            configured,
            header: options.output.csv,
            shows_progress: !options.output.csv && std::io::stdout().is_terminal(),
            standing: 0,
            last: Progress::default(),
            last_at: None,
            began: Instant::now(),
        }
    }

    /// A line that the next one overwrites; for terminals only.
    pub fn progress(&mut self, title: &str, progress: Progress) {
        if !self.shows_progress {
            return;
        }
        let now = Instant::now();
        if self.last_at.is_none() {
            self.began = now - Duration::from_millis(250);
        }
        let before = self.last_at.unwrap_or(self.began);
        let line = formats::progress(title, (self.last, now - before), (progress, now - self.began));
        // Errors are ignored: a lost line of progress does no harm.
        let _ = print(&format!("{}{line}\r", self.clean_line()));
        (self.last, self.last_at, self.standing) = (progress, Some(now), line.len());
    }

    /// Blanks that overwrite the line.
    fn clean_line(&self) -> String {
        format!("{:1$}\r", " ", self.standing.max(1))
    }

    /// Print what was counted of `test`; its title says when it was cut short. Then that is the failure.
    pub fn result(&mut self, options: &Options, test: &PlannedTest, outcome: Outcome) -> Result<(), Failure> {
        let total = &Total::of(&outcome);
        let cut = outcome.cut.as_ref().map(|cut| cut.at.saturating_sub(outcome.span.counts_from));
        let title = match cut {
            None => test.title.clone(),
            Some(after_ns) => format!("{} (cut short after {:.2} seconds)", test.title, seconds(after_ns)),
        };
        let clean = self.clean_line();
        let text = match (options.output.csv, options.output.quiet) {
            (true, _) if self.header => formats::CSV_HEADER.to_owned() + &formats::csv_row(&title, total),
            (true, _) => formats::csv_row(&title, total),
            (false, true) => clean + &formats::one_line(&title, total),
            (false, false) => clean + &formats::report(options, (&title, test), total, &self.configured),
        };
        self.header = false;
        (self.last, self.last_at, self.standing) = (Progress::default(), None, 0);
        print(&text)?;
        outcome.whole().map(drop)
    }

    /// A blank line ends a round of the default tests.
    pub fn end_round(&self, options: &Options) -> Result<(), Failure> {
        match options.output.csv || !options.command.is_empty() {
            true => Ok(()),
            false => print("\n"),
        }
    }
}
