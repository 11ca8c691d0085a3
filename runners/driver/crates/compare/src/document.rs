//! The comparison as a document, schema `speedbench-compare.v1`.

use serde::Serialize;

use crate::metric::{Comparison, Method};

/// Two sides, each of them one run or several.
#[derive(Debug, Serialize)]
pub struct Pair {
    pub base: Vec<String>,
    pub new: Vec<String>,
    pub method: Method,
    pub warnings: Vec<String>,
    pub tests: Vec<TestPair>,
}

#[derive(Debug, Serialize)]
pub struct TestPair {
    pub name: String,
    pub metrics: Vec<Comparison>,
}

#[derive(Debug, Serialize)]
pub struct Document {
    pub schema: &'static str,
    pub confidence: f64,
    pub comparisons: Vec<Pair>,
}
