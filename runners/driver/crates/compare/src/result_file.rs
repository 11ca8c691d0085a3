//! What `compare` reads of a document; other fields may come and go.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde::Deserialize;
use serde_json::{Map, Value};

use report::written;
use text::failure::Failure;

#[derive(Debug, Clone, Deserialize)]
pub struct ResultFile {
    /// Where it was read from.
    #[serde(skip)]
    pub path: String,
    pub driver: Driver,
    pub target: Target,
    #[serde(default)]
    pub environment: Map<String, Value>,
    pub tests: Vec<Test>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Driver {
    pub digest: String,
    pub workload_digest: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Target {
    pub protocol: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Test {
    pub name: String,
    pub workload: Map<String, Value>,
    /// The rate of an open loop, and what came of it.
    #[serde(default)]
    pub open: Option<Map<String, Value>>,
    pub window_s: f64,
    pub throughput_rps: f64,
    pub latency_hdr_v2: String,
    pub client_cpu: Cpu,
    pub server_cpu: Option<Cpu>,
    pub slices: Slices,
    pub flags: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Cpu {
    pub ns_per_request: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Slices {
    pub width_ms: u64,
    pub requests: Vec<u64>,
    #[serde(default)]
    pub server_cpu_ns: Vec<u64>,
    #[serde(default)]
    pub client_cpu_ns: Vec<u64>,
}

impl ResultFile {
    pub fn read(path: &str) -> Result<ResultFile, Failure> {
        let file: ResultFile = written::read(path)?;
        Ok(ResultFile { path: path.to_owned(), ..file })
    }

    pub fn test(&self, name: &str) -> Option<&Test> {
        self.tests.iter().find(|test| test.name == name)
    }
}

impl Test {
    /// Slices of full width.
    pub fn whole_slices(&self) -> usize {
        let whole = (self.window_s * 1000.0 / self.slices.width_ms.max(1) as f64 + 1e-6) as usize;
        self.slices.requests.len().min(whole)
    }

    /// The latencies in ns. Errors say what is wrong with them.
    pub fn latencies(&self) -> Result<Histogram<u64>, String> {
        let bytes = STANDARD.decode(&self.latency_hdr_v2).map_err(|error| error.to_string())?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())
    }
}

/// The value in ns of rank `rank` (from 1) of the ordered latencies.
pub fn ranked(latencies: &Histogram<u64>, rank: u64) -> f64 {
    let mut seen = 0;
    for step in latencies.iter_recorded() {
        seen += step.count_since_last_iteration();
        if seen >= rank {
            return latencies.median_equivalent(step.value_iterated_to()) as f64;
        }
    }
    latencies.max() as f64
}
