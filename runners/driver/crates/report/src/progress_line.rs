//! One line on the terminal that is overwritten while a test runs and cleared at its end.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use engine::progress::Progress;

/// Back to the begin of the line, and clear it.
const CLEAN: &str = "\r\x1b[K";

/// Writes to stderr, if that is a terminal.
pub struct ProgressLine {
    name: String,
    is_visible: bool,
    began: Instant,
    last: Progress,
    last_at: Instant,
}

impl ProgressLine {
    pub fn new(name: &str) -> ProgressLine {
        let began = Instant::now();
        ProgressLine {
            name: name.to_owned(),
            is_visible: std::io::stderr().is_terminal(),
            began,
            last: Progress::default(),
            last_at: began,
        }
    }

    /// The same, or a line that is never written.
    pub fn hidden(mut self, is_hidden: bool) -> ProgressLine {
        self.is_visible &= !is_hidden;
        self
    }

    /// Whether there is a terminal that has not been written to for `gap`.
    pub fn is_due(&self, gap: Duration) -> bool {
        self.is_visible && self.last_at.elapsed() >= gap
    }

    /// Write `text` instead of the progress of one load.
    pub fn say(&mut self, text: &str) {
        if self.is_visible {
            write(&format!("{CLEAN}{}: {text}", self.name));
            self.last_at = Instant::now();
        }
    }

    pub fn update(&mut self, progress: Progress) {
        if !self.is_visible {
            return;
        }
        let now = Instant::now();
        let counted = progress.replies.saturating_sub(self.last.replies);
        write(&format!("{CLEAN}{}", text(&self.name, now - self.began, counted, now - self.last_at)));
        (self.last, self.last_at) = (progress, now);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_visible {
            write(CLEAN);
        }
    }
}

/// `counted` replies in the last `part` of `elapsed`; none are counted before the window.
fn text(name: &str, elapsed: Duration, counted: u64, part: Duration) -> String {
    let rate = counted as f64 / part.as_secs_f64().max(1e-9);
    match counted {
        0 => format!("{name}: {:.1} s, nothing counted yet", elapsed.as_secs_f64()),
        _ => format!("{name}: {:.1} s, {rate:.0} requests/s", elapsed.as_secs_f64()),
    }
}

/// Errors are ignored: a lost line of progress does no harm.
fn write(line: &str) {
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate_of_its_part() {
        let ms = Duration::from_millis;
        assert_eq!(text("get", ms(1250), 30_000, ms(250)), "get: 1.2 s, 120000 requests/s");
        assert_eq!(text("get", ms(250), 0, ms(250)), "get: 0.2 s, nothing counted yet");
    }
}
