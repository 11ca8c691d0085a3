//! The result as a document, schema `speedbench.v1`. `README.md` describes each field.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::joined::Joined;
use crate::prefill::Prefill;
use crate::result::TestResult;
use engine::outcome::Cut;
use engine::part::Part;
use machine::environment::Environment;
use text::failure::Failure;
use text::units::{round, seconds};

pub const SCHEMA: &str = "speedbench.v1";

#[derive(Debug, Serialize, Deserialize)]
pub struct Document {
    pub schema: Cow<'static, str>,
    pub driver: Driver,
    pub target: TargetName,
    pub started_at: String,
    /// What of the load was measured; left out when that is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// What it was joined of; left out unless it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
    pub environment: Environment,
    /// The first one.
    pub prefill: Option<Prefill>,
    pub tests: Vec<TestResult>,
    /// Why the run ended before its end; the tests are what it had measured. A document that has one is not read.
    #[serde(skip_deserializing)]
    pub cut_short: Option<CutShort>,
}

/// What ended a run early, and when.
#[derive(Debug, Serialize)]
pub struct CutShort {
    /// Cause and remedy.
    pub cause: String,
    /// The test during which it happened.
    pub test: String,
    /// Since the begin of its window; none when that had not begun.
    pub after_s: Option<f64>,
    #[serde(skip)]
    pub failure: Failure,
}

impl CutShort {
    /// `failure` ended the run before the window of `test` began.
    pub fn before(test: &str, failure: Failure) -> CutShort {
        CutShort { cause: failure.to_string(), test: test.to_owned(), after_s: None, failure }
    }

    /// The window of `test` was cut.
    pub fn within(test: &TestResult, cut: Cut) -> CutShort {
        let after_ns = cut.at.saturating_sub(test.window_began_ns);
        CutShort { after_s: Some(round(seconds(after_ns), 3)), ..CutShort::before(&test.name, cut.failure) }
    }

    /// One line for those who read: when and what.
    pub fn line(&self) -> String {
        let moment = self.after_s.map_or("before".to_owned(), |after_s| format!("after {after_s:.3} s of"));
        format!("cut short {moment} {}: {}", self.test, self.cause)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Driver {
    pub version: Cow<'static, str>,
    pub digest: String,
    /// Of the phases and the protocol: what is compared has the same.
    pub workload_digest: String,
    pub argv: Vec<String>,
    pub seed: u64,
    pub threads: usize,
    pub engine: Cow<'static, str>,
    pub clock: Cow<'static, str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetName {
    pub protocol: Cow<'static, str>,
    pub address: String,
}

impl Document {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("the document has string keys only")
    }
}
