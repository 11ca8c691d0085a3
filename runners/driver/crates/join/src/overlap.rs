//! What the windows of several machines have in common, by the clocks of their calendars.

use jiff::Timestamp;

use crate::machines::MachineFile;
use report::result::TestResult;
use text::failure::Failure;

/// The windows of all machines.
pub struct Overlap {
    /// When the last of them began, and how long all lasted together, in s.
    pub began_at: Timestamp,
    pub common_s: f64,
    pub longest_s: f64,
}

impl Overlap {
    pub fn of(machines: &[MachineFile]) -> Overlap {
        let tests = || machines.iter().map(MachineFile::test);
        let began_at = tests().map(|test| test.window_began_at).max().expect("there are several");
        let common_s = tests().map(|test| test.window_s - before_s(test, began_at)).fold(f64::MAX, f64::min);
        let longest_s = tests().map(|test| test.window_s).fold(0.0, f64::max);
        Overlap { began_at, common_s: common_s.max(0.0), longest_s }
    }

    /// The common part of the longest window, 0 to 1.
    pub fn share(&self) -> f64 {
        text::units::per(self.common_s, self.longest_s)
    }

    pub fn check(&self, least: f64) -> Result<(), Failure> {
        if self.share() >= least {
            return Ok(());
        }
        Err(Failure::run(
            format!(
                "the windows have {:.3} s of {:.3} s in common, less than the share {least}",
                self.common_s, self.longest_s
            ),
            "let all parts begin at one --start-at, and synchronise the clocks of the machines",
        ))
    }

    /// How many slices of `test` end before half of the first one in which all machines measured.
    pub fn slices_before(&self, test: &TestResult) -> usize {
        (before_s(test, self.began_at) * 1000.0 / test.slices.width_ms as f64).round() as usize
    }
}

/// How long before `moment` the window of `test` began, s.
fn before_s(test: &TestResult, moment: Timestamp) -> f64 {
    moment.duration_since(test.window_began_at).as_secs_f64()
}
