//! Keys and values out of their written form.

use crate::file::written::{DistributionName, KeyFields, ValueFields};
use crate::phase::KeySpace;
use generator::keys;
use generator::values::Sizes;
use text::checks::require;
use text::failure::Failure;

pub fn key_space(keys: &KeyFields, usual_count: u64) -> Result<KeySpace, Failure> {
    use DistributionName::{Cycle, Gaussian, Hotspot, Latest, Parts, Sequential, Uniform, Zipf};
    let name = keys.distribution;
    let parameters = [
        ("exponent", keys.exponent.is_some(), matches!(name, Zipf | Latest)),
        ("first_rank", keys.first_rank.is_some(), name == Zipf),
        ("mean", keys.mean.is_some(), name == Gaussian),
        ("deviation", keys.deviation.is_some(), name == Gaussian),
        ("hot_keys", keys.hot_keys.is_some(), name == Hotspot),
        ("hot_requests", keys.hot_requests.is_some(), name == Hotspot),
    ];
    for (parameter, given, taken) in parameters {
        require(
            taken || !given,
            &format!("keys.{parameter} means nothing to this distribution"),
            "leave it out, or correct keys.distribution",
        )?;
    }
    require(keys.first_rank != Some(0), "keys.first_rank cannot be 0", "ranks begin with 1")?;
    let exponent = || within(keys.exponent.unwrap_or(0.99), "keys.exponent", 10.0);
    let distribution = match name {
        Uniform => keys::Distribution::Uniform,
        Sequential => keys::Distribution::Sequential,
        Parts => keys::Distribution::Parts,
        Cycle => keys::Distribution::Cycle,
        Zipf => keys::Distribution::Zipf { exponent: exponent()?, first_rank: keys.first_rank },
        Latest => keys::Distribution::Latest { exponent: exponent()? },
        Gaussian => keys::Distribution::Gaussian {
            mean: share(keys.mean.unwrap_or(0.5), "keys.mean", true)?,
            deviation: within(keys.deviation.unwrap_or(0.125), "keys.deviation", 1.0)?,
        },
        Hotspot => keys::Distribution::Hotspot {
            hot_keys: share(keys.hot_keys.unwrap_or(0.2), "keys.hot_keys", false)?,
            hot_requests: share(keys.hot_requests.unwrap_or(0.8), "keys.hot_requests", true)?,
        },
    };
    Ok(KeySpace { count: keys.count.unwrap_or(usual_count), distribution, bytes: keys.bytes })
}

/// A number above 0 and at most `most`.
fn within(number: f64, name: &str, most: f64) -> Result<f64, Failure> {
    require(
        number > 0.0 && number <= most,
        &format!("{name} cannot be {number}"),
        &format!("give a number above 0, at most {most}"),
    )?;
    Ok(number)
}

/// A number from 0 to 1; 0 only where it means something.
pub fn share(number: f64, name: &str, zero: bool) -> Result<f64, Failure> {
    let fits = (0.0..=1.0).contains(&number) && (zero || number > 0.0);
    require(fits, &format!("{name} cannot be {number}"), "give a share between 0 and 1")?;
    Ok(number)
}

pub fn sizes(values: &ValueFields) -> Result<Sizes, Failure> {
    match (values.bytes, values.range, &values.weighted) {
        (Some(bytes), None, None) => Ok(Sizes::Fixed(bytes)),
        (None, Some([from, to]), None) => {
            require(from <= to, "values.range ends before it begins", "give [least, greatest]")?;
            Ok(Sizes::Range(from, to))
        }
        (None, None, Some(sizes)) => {
            let fits = !sizes.is_empty() && sizes.iter().all(|(_, weight)| (1..=1_000_000).contains(weight));
            require(
                fits,
                "values.weighted is not one",
                "give [[bytes, weight], ...] with weights of 1 to 1000000",
            )?;
            Ok(Sizes::Weighted(sizes.clone()))
        }
        _ => {
            Err(Failure::usage("values has not exactly one of bytes, range and weighted", "give one of them"))
        }
    }
}
