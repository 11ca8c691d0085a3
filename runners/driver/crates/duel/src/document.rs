//! A duel as a document, schema `speedbench.duel.v1`. `README.md` describes each field.

use serde::Serialize;

use crate::contest::Slice;
use crate::ratio::Ratio;
use crate::sides::{Side, Sides};
use crate::verdict::Verdict;
use machine::environment::Environment;
use report::document::Driver;
use report::result::TestResult;
use text::failure::Failure;

pub const SCHEMA: &str = "speedbench.duel.v1";

#[derive(Debug, Serialize)]
pub struct Document {
    pub schema: &'static str,
    pub driver: Driver,
    pub protocol: &'static str,
    pub base: Server,
    pub head: Server,
    pub started_at: String,
    pub environment: Environment,
    pub caveat: &'static str,
    pub tests: Vec<DuelResult>,
    /// What failed: why the duel ended before its time, or what could not be read. What was measured is in `tests`.
    #[serde(serialize_with = "as_text")]
    pub failure: Option<Failure>,
}

#[derive(Debug, Serialize)]
pub struct Server {
    pub address: String,
    pub pid: Option<u32>,
}

#[derive(Debug, Serialize)]
pub struct DuelResult {
    pub name: String,
    pub pairs: usize,
    pub slice_ms: u64,
    pub verdict: Verdict,
    pub ratios: Vec<Ratio>,
    /// The share of a core that each server used while the other one was measured; null without their pids.
    pub resting_cpu_share: Sides<Option<f64>>,
    pub flags: Vec<&'static str>,
    /// In the order of time: two and two are a pair.
    pub slices: Vec<Slice>,
    /// All slices of a side, as `run` reports a window.
    pub base: TestResult,
    pub head: TestResult,
}

impl DuelResult {
    pub fn of_mut(&mut self, side: Side) -> &mut TestResult {
        match side {
            Side::Base => &mut self.base,
            Side::Head => &mut self.head,
        }
    }
}

fn as_text<S: serde::Serializer>(failure: &Option<Failure>, serializer: S) -> Result<S::Ok, S::Error> {
    failure.as_ref().map(Failure::to_string).serialize(serializer)
}

impl Document {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("the document has string keys only")
    }
}
