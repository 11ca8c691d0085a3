//! A phase as a workload file has it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mode;
use crate::ramp;
use engine::job::Window;
use engine::probe;
use engine::schedule::ArrivalProcess;
use modes::{blocking, pubsub, replay};
use text::checks::require;
use text::failure::Failure;

const SEE_README: &str = "see the table of keys in README.md";

/// `value` as a `T`; the failure names the key that does not fit.
pub fn read_as<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let key = match error.path().to_string().as_str() {
            "." => String::new(),
            path => format!("{path}: "),
        };
        Failure::usage(format!("{key}{}", error.inner()), SEE_README)
    })
}

/// A phase as it is written.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseFields {
    pub name: Option<String>,
    pub test: Option<String>,
    pub commands: Option<Vec<CommandFields>>,
    pub sequence: Option<Vec<CommandFields>>,
    pub clients: Option<usize>,
    pub threads: Option<usize>,
    pub pipeline: Option<usize>,
    pub window: Option<Window>,
    #[serde(default)]
    pub keys: KeyFields,
    pub values: Option<ValueFields>,
    pub ttl_s: Option<OneOrTwo<u64>>,
    #[serde(default)]
    pub prefill: bool,
    pub prefill_request: Option<Request>,
    #[serde(default)]
    pub expect: ExpectFields,
    #[serde(default)]
    pub verify: f64,
    pub warmup_s: Option<f64>,
    pub warmup_most_s: Option<f64>,
    pub duration_s: Option<f64>,
    pub requests: Option<u64>,
    #[serde(default)]
    pub mode: ModeName,
    pub pubsub: Option<pubsub::Setting>,
    pub blocking: Option<blocking::Setting>,
    pub replay: Option<replay::Setting>,
    pub rate: Option<f64>,
    pub ramp: Option<ramp::Setting>,
    pub arrivals: Option<ArrivalProcess>,
    pub rates: Option<Vec<f64>>,
    pub limit: Option<mode::Limit>,
    pub probe: Option<probe::Probe>,
    #[serde(default)]
    pub resp3: bool,
    #[serde(default)]
    pub tracking: bool,
    pub seed: Option<u64>,
}

/// A command of a mix or a sequence.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandFields {
    pub request: Option<Request>,
    pub test: Option<String>,
    pub name: Option<String>,
    pub weight: Option<u64>,
    pub times: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a command as a string or as a list of words")]
pub enum Request {
    Text(String),
    Words(Vec<String>),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, or two in a list")]
pub enum OneOrTwo<T> {
    One(T),
    Two([T; 2]),
}

impl<T: Copy + PartialEq> OneOrTwo<T> {
    pub fn of(both: [T; 2]) -> OneOrTwo<T> {
        if both[0] == both[1] { OneOrTwo::One(both[0]) } else { OneOrTwo::Two(both) }
    }

    pub fn both(self) -> [T; 2] {
        match self {
            OneOrTwo::One(only) => [only, only],
            OneOrTwo::Two(both) => both,
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFields {
    pub count: Option<u64>,
    pub bytes: Option<usize>,
    #[serde(default)]
    pub distribution: DistributionName,
    pub exponent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_rank: Option<u64>,
    pub mean: Option<f64>,
    pub deviation: Option<f64>,
    pub hot_keys: Option<f64>,
    pub hot_requests: Option<f64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DistributionName {
    #[default]
    Uniform,
    Sequential,
    Parts,
    Cycle,
    Zipf,
    Gaussian,
    Hotspot,
    Latest,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueFields {
    pub bytes: Option<usize>,
    pub range: Option<[usize; 2]>,
    pub weighted: Option<Vec<(usize, u64)>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectFields {
    pub hit_rate: Option<OneOrTwo<f64>>,
    pub keys: Option<u64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeName {
    #[default]
    Closed,
    Open,
    Ramp,
    Search,
    Sweep,
    Idle,
    Churn,
    PubSub,
    Blocking,
    Replay,
}

/// A name that tables and logs can show, so one without line breaks.
pub fn label(name: &str) -> Result<String, Failure> {
    let is_printable = !name.trim().is_empty() && !name.chars().any(char::is_control);
    require(is_printable, "name is empty or has control characters", "give one line of text")?;
    Ok(name.to_owned())
}
