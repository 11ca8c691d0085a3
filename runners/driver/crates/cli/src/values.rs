//! Values of options that are more than a number or a text.

use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::arguments::cannot_be;
use text::checks;
use text::failure::Failure;

const SEE_HELP: &str = "see --help";

/// The value `text` of `option`.
pub fn parsed<T: FromStr>(option: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| cannot_be(option, text, SEE_HELP))
}

/// Seconds, of at most a day.
pub fn seconds(option: &str, text: &str) -> Result<Duration, Failure> {
    checks::duration(parsed(option, text)?, option)
}

/// The value that has the name `text` in workload files, too. `names` lists all names.
pub fn named<T: DeserializeOwned>(option: &str, text: &str, names: &str) -> Result<T, Failure> {
    serde_json::from_value(text.into()).map_err(|_| cannot_be(option, text, &format!("give {names}")))
}
