//! Files of latency histograms: as text, and as logs that programs of HdrHistogram read.

use std::fs;

use hdrhistogram::Histogram as Hdr;

use crate::memtier_benchmark::latencies::{base64, steps, to_us};
use crate::memtier_benchmark::stats::RunStats;
use text::failure::Failure;

const US_PER_MS: f64 = 1000.0;
/// Of three significant digits.
const SUB_BUCKETS: u64 = 2048;

/// Write the files of run number `run`, whose names begin with `prefix`; rows without latencies have none.
pub fn write(prefix: &str, run: u32, stats: &RunStats) -> Result<(), Failure> {
    let rows = stats.rows.iter().map(|row| (format!("{}_command_run", row.name), row.name.as_str(), row));
    let all = [("FULL_RUN".to_owned(), "Full Run", &stats.totals)];
    for (file, title, row) in all.into_iter().chain(rows).filter(|(.., row)| row.latency.count() > 0) {
        let us = to_us(&row.latency);
        write_file(&format!("{prefix}_{file}_{run}.txt"), &percentiles(&us))?;
        write_file(&format!("{prefix}_{file}_{run}.hgrm"), &log(title, stats, &us))?;
    }
    Ok(())
}

/// Begin the first of the files.
pub fn create(prefix: &str) -> Result<(), Failure> {
    write_file(&format!("{prefix}_FULL_RUN_1.txt"), "")
}

fn write_file(path: &str, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| {
        Failure::run(
            format!("cannot write {path} ({error})"),
            "give --hdr-file-prefix the begin of a path to write to",
        )
    })
}

/// In ms, as HdrHistogram's own programs print them.
fn percentiles(us: &Hdr<u64>) -> String {
    let mut text =
        format!("{:>12} {:>12} {:>12} {:>12}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    for step in steps(us) {
        let share = step.percentile / 100.0;
        let inverse =
            if share < 1.0 { format!("{:>12.2}", 1.0 / (1.0 - share)) } else { format!("{:>12}", "inf") };
        text += &format!("{:>12.3} {share:>12.6} {:>12} {inverse}\n", step.ms, step.count);
    }
    let ms = |us: f64| us / US_PER_MS;
    let buckets = u64::BITS - (us.high() / SUB_BUCKETS).leading_zeros() + 1;
    text + &format!(
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]\n\
         #[Max     = {:>12.3}, Total count    = {:>12}]\n\
         #[Buckets = {buckets:>12}, SubBuckets     = {SUB_BUCKETS:>12}]\n",
        ms(us.mean()),
        ms(us.stdev()),
        ms(us.max() as f64),
        us.len(),
    )
}

/// One interval, which is the whole run; in us.
fn log(title: &str, stats: &RunStats, us: &Hdr<u64>) -> String {
    let (began, lasted) = (stats.began.as_secs_f64(), stats.lasted.as_secs_f64());
    format!(
        "#[{title} command HDR latency histogram results]\n\
         #[Histogram log format version 1.2]\n\
         #[StartTime: {began:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"EndTimestamp\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n\
         {began:.3},{:.3},{:.1},{}\n",
        began + lasted,
        us.max() as f64,
        base64(us)
    )
}
