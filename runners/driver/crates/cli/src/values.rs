//! Values of options that are more than a number or a text.

use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::arguments::cannot_be;
use text::checks;
use text::failure::Failure;
use text::numbers::{BYTES, THOUSANDS, TIMES, measured};

const SEE_HELP: &str = "see --help";

/// The value `text` of `option`.
pub fn parsed<T: FromStr>(option: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| cannot_be(option, text, SEE_HELP))
}

/// A whole number, which may end with k, m or g: 10k is 10000.
pub fn count<T: FromStr + TryFrom<u64>>(option: &str, text: &str) -> Result<T, Failure> {
    whole(text, &THOUSANDS)
        .ok_or_else(|| cannot_be(option, text, "give a whole number, as in 5000, 5k or 2m"))
}

/// Bytes, which may end with a unit of redis.conf: 4k is 4000, 4kb is 4096.
pub fn bytes(option: &str, text: &str) -> Result<usize, Failure> {
    whole(text, &BYTES)
        .ok_or_else(|| cannot_be(option, text, "give bytes, as in 4096, 4k (4000) or 4kb (4096)"))
}

/// A number that may have a fraction, or end with k, m or g: 1.5k is 1500.
pub fn amount(option: &str, text: &str) -> Result<f64, Failure> {
    measured(text, &THOUSANDS).ok_or_else(|| cannot_be(option, text, "give a number, as in 5000, 5k or 2m"))
}

/// Seconds, of at most a day; the unit may be another one, as in 500ms.
pub fn seconds(option: &str, text: &str) -> Result<Duration, Failure> {
    let time = measured(text, &TIMES);
    let time =
        time.ok_or_else(|| cannot_be(option, text, "give seconds, as in 5, 0.5, 5s, 500ms or 2min"))?;
    checks::duration(time, option)
}

/// A time with its unit, in seconds.
pub fn time_with_unit(text: &str) -> Option<f64> {
    text.parse::<f64>().is_err().then(|| measured(text, &TIMES))?
}

/// A whole number, perhaps with one of `units`; without a unit all of its digits count.
fn whole<T: FromStr + TryFrom<u64>>(text: &str, units: &[(&str, f64)]) -> Option<T> {
    const EXACT: f64 = (1u64 << 53) as f64;
    text.parse().ok().or_else(|| {
        let number = measured(text, units).filter(|_| text.ends_with(|it: char| it.is_ascii_alphabetic()))?;
        let is_whole = (0.0..EXACT).contains(&number) && number.fract() == 0.0;
        is_whole.then(|| T::try_from(number as u64).ok())?
    })
}

/// The value that has the name `text` in workload files, too. `names` lists all names.
pub fn named<T: DeserializeOwned>(option: &str, text: &str, names: &str) -> Result<T, Failure> {
    serde_json::from_value(text.into()).map_err(|_| cannot_be(option, text, &format!("give {names}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_have_units() {
        for (text, number) in
            [("5000", 5000), ("10k", 10_000), ("1.5K", 1500), ("2m", 2_000_000), ("1G", 1_000_000_000)]
        {
            assert_eq!(count::<u64>("-n", text).unwrap(), number, "{text}");
        }
        assert_eq!(count::<u64>("-n", "18446744073709551615").unwrap(), u64::MAX);
        for text in ["", "k", "1.0005k", "-1k", "1e3", "infk", "10 k", "10kb", "5s"] {
            assert!(count::<u64>("-n", text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_have_the_units_of_redis() {
        for (text, number) in
            [("16", 16), ("16b", 16), ("4k", 4000), ("4kb", 4096), ("1MB", 1 << 20), ("0.5kb", 512)]
        {
            assert_eq!(bytes("-d", text).unwrap(), number, "{text}");
        }
    }

    #[test]
    fn times_may_have_units() {
        for (text, ms) in
            [("5", 5000), ("0.5", 500), ("5s", 5000), ("500ms", 500), ("2m", 120_000), ("1min", 60_000)]
        {
            assert_eq!(seconds("--duration", text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for text in ["5x", "s", "1 s", "25h", "-1s"] {
            assert!(seconds("--duration", text).is_err(), "{text}");
        }
    }
}
