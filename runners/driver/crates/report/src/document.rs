//! The result as a document, schema `speedbench.v1`. `README.md` describes each field.

use serde::Serialize;

use crate::prefill::Prefill;
use crate::result::TestResult;
use machine::environment::Environment;

pub const SCHEMA: &str = "speedbench.v1";

#[derive(Debug, Serialize)]
pub struct Document {
    pub schema: &'static str,
    pub driver: Driver,
    pub target: TargetName,
    pub started_at: String,
    pub environment: Environment,
    /// The first one.
    pub prefill: Option<Prefill>,
    pub tests: Vec<TestResult>,
}

#[derive(Debug, Serialize)]
pub struct Driver {
    pub version: &'static str,
    pub digest: String,
    /// Of the phases and the protocol: what is compared has the same.
    pub workload_digest: String,
    pub argv: Vec<String>,
    pub seed: u64,
    pub threads: usize,
    pub engine: &'static str,
    pub clock: &'static str,
}

#[derive(Debug, Serialize)]
pub struct TargetName {
    pub protocol: &'static str,
    pub address: String,
}

impl Document {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("the document has string keys only")
    }
}
