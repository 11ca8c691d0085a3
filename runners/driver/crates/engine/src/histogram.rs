//! Latencies in nanoseconds: a log-linear array, exact below 512 ns, buckets of at most 0.4% above.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::{Deserializer, Serializer};

/// Each power of two is cut into 2^8 buckets.
const SUB_BITS: u32 = 8;
/// Values are clamped below 2^43 ns (2.4 hours): longer than any timeout in use.
const VALUE_BITS: u32 = 43;
const LARGEST: u64 = (1 << VALUE_BITS) - 1;
const BUCKETS: usize = bucket(LARGEST) + 1;

const fn bucket(value: u64) -> usize {
    if value < 1 << SUB_BITS {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The middle of what falls into a bucket.
fn middle(bucket: usize) -> u64 {
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    let lowest = ((bucket - (shift << SUB_BITS)) as u64) << shift;
    lowest + ((1 << shift) >> 1)
}

/// Counts by bucket, without those that are 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gain(Vec<(u32, u64)>);

/// A histogram of few values: memory for those alone.
#[derive(Debug, Clone, Default)]
pub struct SparseHistogram {
    counts: BTreeMap<u32, u64>,
    sum: u64,
    /// Least and greatest value in ns.
    bounds: Option<(u64, u64)>,
}

impl SparseHistogram {
    /// Record `count` times the value of `ns` nanoseconds.
    pub fn record(&mut self, ns: u64, count: u64) {
        let ns = ns.min(LARGEST);
        *self.counts.entry(bucket(ns) as u32).or_default() += count;
        self.sum += ns * count;
        let (min, max) = self.bounds.unwrap_or((ns, ns));
        self.bounds = Some((min.min(ns), max.max(ns)));
    }

    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The same values with room for all.
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::default();
        for (bucket, count) in &self.counts {
            histogram.counts[*bucket as usize] = *count;
            histogram.count += count;
        }
        let (min, max) = self.bounds.unwrap_or((u64::MAX, 0));
        Histogram { sum: self.sum, min, max, ..histogram }
    }
}

impl Gain {
    pub fn merge(&mut self, other: &Gain) {
        self.0.extend_from_slice(&other.0);
    }
}

#[derive(Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Clone for Histogram {
    fn clone(&self) -> Self {
        Histogram { counts: self.counts.clone(), ..*self }
    }

    /// In the memory that `self` has.
    fn clone_from(&mut self, source: &Self) {
        self.counts.clone_from(&source.counts);
        (self.count, self.sum) = (source.count, source.sum);
        (self.min, self.max) = (source.min, source.max);
    }
}

impl Histogram {
    /// Record `count` times the value of `ns` nanoseconds.
    #[inline]
    pub fn record(&mut self, ns: u64, count: u64) {
        let ns = ns.min(LARGEST);
        self.counts[bucket(ns)] += count;
        self.count += count;
        self.sum += ns * count;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// What was recorded since `earlier` was a copy of this; `earlier` becomes one again.
    pub fn gained_since(&self, earlier: &mut Histogram) -> Gain {
        let pairs = self.counts.iter().zip(&earlier.counts).enumerate();
        let gained = pairs.filter(|(_, (now, before))| now != before);
        let gain = Gain(gained.map(|(bucket, (now, before))| (bucket as u32, now - before)).collect());
        earlier.clone_from(self);
        gain
    }

    /// The values of `gain`, which are among these; mean, least and greatest are those of the buckets.
    pub fn part(&self, gain: &Gain) -> Histogram {
        let mut part = Histogram::default();
        for &(bucket, count) in &gain.0 {
            part.counts[bucket as usize] += count;
            part.count += count;
            part.sum += middle(bucket as usize) * count;
        }
        let edge = |bucket: Option<&(u32, u64)>| {
            bucket.map(|(bucket, _)| middle(*bucket as usize).clamp(self.min(), self.max))
        };
        let (first, last) = (gain.0.iter().min(), gain.0.iter().max());
        Histogram { min: edge(first).unwrap_or(u64::MAX), max: edge(last).unwrap_or(0), ..part }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Smallest recorded value in ns, exact; 0 when empty.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// Largest recorded value in ns, exact; 0 when empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean in ns, exact; 0 when empty.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// Sum of all values in ns, exact.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many values are at most `ns`; those within 0.4% of it may fall on either side.
    pub fn count_up_to(&self, ns: u64) -> u64 {
        self.counts[..=bucket(ns.min(LARGEST))].iter().sum()
    }

    /// The smallest value in ns that at least the fraction `quantile` (0..=1) of the values do not exceed.
    ///
    /// Within 0.2% of the exact one, and never outside [min, max]; 0 when empty.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(bucket).clamp(self.min(), self.max);
            }
        }
        0
    }

    /// The same values as an HdrHistogram of so many significant `digits` (0 to 5), in ns.
    pub fn to_hdr(&self, digits: u8) -> hdrhistogram::Histogram<u64> {
        let mut export = hdrhistogram::Histogram::<u64>::new_with_bounds(1, LARGEST, digits)
            .expect("the bounds are valid for up to five digits");
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            export
                .record_n(middle(bucket).clamp(self.min(), self.max).max(1), count)
                .expect("clamped to the bounds");
        }
        export
    }

    /// Base64 of an HdrHistogram V2 with deflate (the `HISTFAAA...` of histogram logs): ns, 3 significant digits.
    pub fn to_hdr_base64(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.to_hdr(3), &mut bytes)
            .expect("writing to memory does not fail");
        STANDARD.encode(bytes)
    }

    /// What [`Histogram::to_hdr_base64`] wrote as `text`, of values whose least, greatest and mean are these, in ns. The counts
    /// are those that were exported, as an exported bucket lies in one of these. Errors say what is wrong with the text.
    pub fn of_hdr_base64(text: &str, min: u64, max: u64, mean: u64) -> Result<Histogram, String> {
        let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
        let exported: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())?;
        let mut histogram = Histogram::default();
        for step in exported.iter_recorded() {
            histogram.counts[bucket(step.value_iterated_to().min(LARGEST))] +=
                step.count_since_last_iteration();
        }
        let count = exported.len();
        match count {
            0 => Ok(histogram),
            _ => Ok(Histogram { count, sum: mean * count, min, max, ..histogram }),
        }
    }
}
