//! The values of options, whatever the grammar of the command line.

use std::str::FromStr;
use std::time::Duration;

use text::checks;
use text::failure::Failure;

/// The words of a command line that follow an option.
pub trait Words {
    /// Where the reader of a message finds more.
    const SEE: &'static str;

    /// The value of `option`, of which `publish` makes what may be published.
    fn secret(&mut self, option: &str, publish: fn(&str) -> String) -> Result<String, Failure>;

    /// The value of `option`.
    fn text(&mut self, option: &str) -> Result<String, Failure> {
        self.secret(option, str::to_owned)
    }

    fn value<T: FromStr>(&mut self, option: &str) -> Result<T, Failure> {
        let text = self.text(option)?;
        text.parse().map_err(|_| Failure::usage(format!("{option} cannot be '{text}'"), Self::SEE))
    }

    fn seconds(&mut self, option: &str) -> Result<Duration, Failure> {
        checks::duration(self.value(option)?, option)
    }
}
