//! Latencies over time as a log of HdrHistogram intervals, format 1.3: other programs plot and merge it.

use std::fs::File;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::result::TestResult;
use engine::histogram::Histogram;
use machine::clock;
use text::failure::Failure;
use text::units::seconds;

/// The column of maxima is in ms; the histograms are in ns.
const NS_PER_MS: f64 = 1e6;

pub struct HdrLog {
    path: String,
    file: File,
    /// The monotonic clock at StartTime.
    started_at: u64,
}

impl HdrLog {
    /// A new file at `path`, or one written over, with the header.
    pub fn create(path: &str) -> Result<HdrLog, Failure> {
        let (wall, started_at) = (SystemTime::now(), clock::now());
        let start = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let file = File::create(path).map_err(|error| unwritable(path, error))?;
        let mut log = HdrLog { path: path.to_owned(), file, started_at };
        log.write(&format!(
            "#[Logged with speedbench {}: latencies in ns, maxima in ms]\n\
             #[Histogram log format version 1.3]\n\
             #[BaseTime: {start:.3} (seconds since epoch)]\n\
             #[StartTime: {start:.3} (seconds since epoch)]\n\
             \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
            env!("CARGO_PKG_VERSION")
        ))?;
        Ok(log)
    }

    /// A line for each interval of `test`, tagged with its name.
    pub fn append(&mut self, test: &TestResult) -> Result<(), Failure> {
        let mut lines = String::new();
        for (index, gain) in test.intervals.gains.iter().enumerate() {
            let (begin, length) = test.intervals.span(index);
            lines += &self.line(&test.name, begin, length, &test.latency.part(gain));
        }
        self.write(&lines)
    }

    fn line(&self, name: &str, begin: u64, length: u64, part: &Histogram) -> String {
        let largest = if part.count() == 0 { 0 } else { part.quantile(1.0) };
        format!(
            "Tag={},{:.3},{:.3},{:.3},{}\n",
            name.replace([',', ' ', '\r', '\n'], "_"),
            seconds(begin.saturating_sub(self.started_at)),
            seconds(length),
            largest as f64 / NS_PER_MS,
            part.to_hdr_base64()
        )
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(|error| unwritable(&self.path, error))
    }
}

fn unwritable(path: &str, error: std::io::Error) -> Failure {
    Failure::run(format!("cannot write --hdr-log {path} ({error})"), "name a file in a folder that is there")
}
