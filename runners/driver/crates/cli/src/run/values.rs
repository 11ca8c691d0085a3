//! What the values of the options mean.

use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::command_line::CommandLine;
use crate::option_values::Words;
use engine::job::Window;
use engine::schedule::{Law, check_rate};
use machine::counters;
use text::failure::Failure;
use workload::mode::Limit;
use workload::protocol_name::Protocol;

pub fn events(list: &str) -> Result<Vec<&'static str>, Failure> {
    counters::named(list).ok_or_else(|| {
        Failure::usage(
            format!("invalid --server-events '{list}'"),
            format!("there are {}", counters::names()),
        )
    })
}

pub fn value<T: FromStr>(parser: &mut CommandLine, option: &str) -> Result<T, Failure> {
    Words::value(parser, option)
}

pub fn seconds(parser: &mut CommandLine, option: &str) -> Result<Duration, Failure> {
    Words::seconds(parser, option)
}

pub fn protocol(name: &str) -> Result<Protocol, Failure> {
    Protocol::ALL
        .into_iter()
        .find(|protocol| protocol.name() == name)
        .ok_or_else(|| Failure::usage(format!("--protocol cannot be '{name}'"), "give resp or memcached"))
}

/// What `name` stands for where workload files may say it, too.
pub fn known<T: DeserializeOwned>(name: &str, option: &str, names: &str) -> Result<T, Failure> {
    serde_json::from_value(name.into())
        .map_err(|_| Failure::usage(format!("{option} cannot be '{name}'"), format!("give {names}")))
}

pub fn window(kind: &str) -> Result<Window, Failure> {
    match kind {
        "batch" => Ok(Window::Batch),
        "rolling" => Ok(Window::Rolling),
        _ => Err(Failure::usage(format!("--window cannot be '{kind}'"), "give batch or rolling")),
    }
}

pub fn law(name: &str) -> Result<Law, Failure> {
    Law::ALL
        .into_iter()
        .find(|law| law.name() == name)
        .ok_or_else(|| Failure::usage(format!("--arrivals cannot be '{name}'"), "give fixed or poisson"))
}

pub fn rates(list: &str) -> Result<Vec<f64>, Failure> {
    let rate = |text: &str| {
        let rate = text.parse().map_err(|_| {
            Failure::usage(format!("--sweep cannot be '{list}'"), "give rates, as in 10000,20000")
        })?;
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
        _ => Err(Failure::usage(
            format!("--search cannot be '{text}'"),
            "give a percentile and a latency, as in p99:1000us",
        )),
    }
}

pub fn cpus(list: &str) -> Result<Vec<usize>, Failure> {
    list.split(',')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| Failure::usage(format!("--cpus cannot be '{list}'"), "give CPU numbers, as in 1,3"))
}
