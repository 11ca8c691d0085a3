//! Values of the options of `speedbench run`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use crate::arguments::cannot_be;
use crate::endpoint::Place;
use crate::values::{amount, named, parsed, time_with_unit};
use engine::part::Part;
use engine::schedule::check_rate;
use machine::counters;
use modes::replay::{Fast, Speed};
use text::checks::require;
use text::failure::Failure;
use text::units::round;
use workload::mode::Limit;
use workload::protocol_name::ProtocolName;

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

/// Servers, separated by commas.
pub fn servers(list: &str) -> Result<Vec<Place>, Failure> {
    require(
        !list.contains("://"),
        "--servers takes no URIs",
        "give HOST:PORT,HOST:PORT, and --tls, --user and -a for all of them",
    )?;
    list.split(',').map(|text| Place::parse("--servers", text.trim())).collect()
}

/// What is asked of memcached and belongs to its binary protocol.
pub const NOT_BINARY: &str = "memcached is spoken by its text and meta protocol; the binary one, and SASL, which is part of it, is not";

pub fn protocol(text: &str) -> Result<ProtocolName, Failure> {
    match ["binary", "sasl"].iter().any(|word| text.to_lowercase().contains(word)) {
        true => Err(cannot_be("--protocol", text, NOT_BINARY)),
        false => named("--protocol", text, "resp or memcached"),
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

/// `127.0.0.1:9400`, `[::1]:9400`, or `9400` of 127.0.0.1
pub fn metrics_address(text: &str) -> Result<SocketAddr, Failure> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = port.or_else(|_| text.parse()).ok();
    address.filter(|address| address.port() > 0).ok_or_else(|| {
        cannot_be("--prometheus", text, "give an address with a port, as in 127.0.0.1:9400, or a port")
    })
}

/// `2.5`, or `fast`
pub fn speed(text: &str) -> Result<Speed, Failure> {
    match text {
        "fast" => Ok(Speed::Fast(Fast::Fast)),
        _ => {
            let times = amount("--speed", text);
            let remedy = "give fast, or how many times as fast as it was recorded, as in 2";
            Speed::Times(times.map_err(|_| cannot_be("--speed", text, remedy))?).check("--speed")
        }
    }
}

pub fn rates(list: &str) -> Result<Vec<f64>, Failure> {
    let rate = |text: &str| {
        let rate = amount("--sweep", text.trim());
        let rate =
            rate.map_err(|_| cannot_be("--sweep", list, "give rates, as in 10000,20000 or 10k,20k"))?;
        check_rate(rate, "--sweep")
    };
    list.split(',').map(rate).collect()
}

/// `p99:1000us` or `p99:1ms`
pub fn limit(text: &str) -> Result<Limit, Failure> {
    let (percentile, latency) = text.split_once(':').unwrap_or_default();
    let percentile = percentile.strip_prefix('p').and_then(|number| number.parse().ok());
    match (percentile, time_with_unit(latency)) {
        (Some(percentile), Some(seconds)) => {
            // The nearest ns: 1.1 ms is 1100 us, and not a little more.
            Limit { percentile, us: round(seconds * 1e6, 3) }.check("--search")
        }
        _ => Err(cannot_be("--search", text, "give a percentile and a latency, as in p99:1000us or p99:1ms")),
    }
}

/// `2026-11-28T18:00:00Z`, or seconds since 1970.
pub fn start(text: &str) -> Result<SystemTime, Failure> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let since_1970 = seconds.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(seconds));
    let remedy = "give a time with its zone, as in 2026-11-28T18:00:00Z, or seconds since 1970";
    let in_calendar = || text.parse::<Timestamp>().ok().map(SystemTime::from);
    since_1970.or_else(in_calendar).ok_or_else(|| cannot_be("--start-at", text, remedy))
}

/// `1/2`
pub fn part(text: &str) -> Result<Part, Failure> {
    let remedy = "give its number and how many there are, as in 1/2 and 2/2";
    text.parse().map_err(|()| cannot_be("--part", text, remedy))
}

/// Whole milliseconds: `100` or `100ms`.
pub fn milliseconds(text: &str) -> Result<u64, Failure> {
    match time_with_unit(text).map(|seconds| round(seconds * 1e3, 3)) {
        Some(ms) if ms.fract() == 0.0 && ms >= 0.0 => Ok(ms as u64),
        _ => parsed("--slice-ms", text),
    }
}

pub fn cpus(list: &str) -> Result<Vec<usize>, Failure> {
    let numbers: Result<_, _> = list.split(',').map(str::parse).collect();
    numbers.map_err(|_| cannot_be("--cpus", list, "give CPU numbers, as in 1,3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_an_address_or_a_port_of_this_machine() {
        for (text, address) in
            [("9400", "127.0.0.1:9400"), ("0.0.0.0:80", "0.0.0.0:80"), ("[::1]:9400", "[::1]:9400")]
        {
            assert_eq!(metrics_address(text).unwrap().to_string(), address);
        }
        for text in ["", "0", "70000", "localhost:9400", "127.0.0.1", "127.0.0.1:0", "::1"] {
            assert!(metrics_address(text).is_err(), "{text}");
        }
    }
}
