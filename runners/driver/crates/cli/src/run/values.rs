//! Values of the options of `speedbench run`.

use crate::arguments::cannot_be;
use crate::values::parsed;
use engine::schedule::check_rate;
use machine::counters;
use text::failure::Failure;
use workload::mode::Limit;

/// Whether a prefill may overwrite keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefill {
    EmptyServer,
    Force,
}

pub fn prefill(text: &str) -> Result<Prefill, Failure> {
    match text {
        "" => Ok(Prefill::EmptyServer),
        "force" => Ok(Prefill::Force),
        _ => Err(cannot_be("--prefill", text, "leave the value out, or give --prefill=force")),
    }
}

pub fn events(list: &str) -> Result<Vec<&'static str>, Failure> {
    counters::named(list).ok_or_else(|| {
        Failure::usage(
            format!("invalid --server-events '{list}'"),
            format!("there are {}", counters::names()),
        )
    })
}

pub fn rate(text: &str) -> Result<f64, Failure> {
    check_rate(parsed("--rate", text)?, "--rate")
}

pub fn rates(list: &str) -> Result<Vec<f64>, Failure> {
    let rate = |text: &str| {
        let rate = text.parse().map_err(|_| cannot_be("--sweep", list, "give rates, as in 10000,20000"))?;
        check_rate(rate, "--sweep")
    };
    list.split(',').map(rate).collect()
}

/// `p99:1000us`
pub fn limit(text: &str) -> Result<Limit, Failure> {
    let (percentile, us) = text.split_once(':').unwrap_or_default();
    let number = |text: Option<&str>| text?.parse().ok();
    match (number(percentile.strip_prefix('p')), number(us.strip_suffix("us"))) {
        (Some(percentile), Some(us)) => Limit { percentile, us }.check("--search"),
        _ => Err(cannot_be("--search", text, "give a percentile and a latency, as in p99:1000us")),
    }
}

pub fn cpus(list: &str) -> Result<Vec<usize>, Failure> {
    let numbers: Result<_, _> = list.split(',').map(str::parse).collect();
    numbers.map_err(|_| cannot_be("--cpus", list, "give CPU numbers, as in 1,3"))
}
