//! Runs of `speedbench duel`, and the parts of its document.

use std::process::Output;

use serde_json::Value;

use super::speedbench;

/// Run `speedbench duel` with the words of `options`.
pub fn duel(base: &str, head: &str, options: &str) -> Output {
    let words = format!("duel --base {base} --head {head} {options} --json");
    speedbench(words.split_whitespace().map(str::to_owned))
}

pub fn document(output: &Output) -> Value {
    let message = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{message}"))
}

/// The document of a duel that must succeed.
pub fn measured(base: &str, head: &str, options: &str) -> Value {
    let output = duel(base, head, options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    document(&output)
}

pub fn slices(document: &Value) -> Vec<Value> {
    document["tests"][0]["slices"].as_array().unwrap().clone()
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

pub fn sum(document: &Value, side: &str, field: &str) -> u64 {
    let own = slices(document).into_iter().filter(|slice| slice["side"] == side);
    own.map(|slice| number(&slice[field])).sum()
}

/// The side of each slice, `b` or `h`.
pub fn order(document: &Value) -> String {
    slices(document).iter().map(|slice| if slice["side"] == "base" { 'b' } else { 'h' }).collect()
}

pub fn ratio(document: &Value, metric: &str) -> Value {
    let ratios = document["tests"][0]["ratios"].as_array().unwrap();
    ratios.iter().find(|ratio| ratio["metric"] == metric).unwrap().clone()
}
