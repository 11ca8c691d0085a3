//! Random streams and percentiles against independent implementations.

use engine::histogram::Histogram;
use engine::latency::LatencyUs;
use generator::rng::Rng;
use generator::rng::SplitMix64;
use proptest::prelude::*;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

#[test]
fn generators_are_the_published_ones() {
    for seed in [0, 1, 42, u64::MAX] {
        let mut theirs = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut ours = Rng::seeded(seed);
        (0..1000).for_each(|_| assert_eq!(ours.next_u64(), theirs.next_u64()));
        let mut theirs = rand_xoshiro::SplitMix64::from_seed(seed.to_le_bytes());
        let mut ours = SplitMix64::new(seed);
        (0..1000).for_each(|_| assert_eq!(ours.next_u64(), theirs.next_u64()));
    }
}

/// What a series was measured with must be reproducible: these numbers, computed outside of this crate, may never change.
#[test]
fn streams_stay_what_they_are() {
    let first = |seed, index| Rng::stream(seed, index).next_u64();
    assert_eq!([first(1, 0), first(1, 1), first(2, 0)], STREAMS);
    let mut rng = Rng::stream(1, 0);
    let keys: Vec<u64> = (0..6).map(|_| rng.below(100_000)).collect();
    assert_eq!(keys, KEYS);
}

const STREAMS: [u64; 3] = [16282194672612932645, 5994789785232109457, 16463644405612823006];
const KEYS: [u64; 6] = [88265, 14816, 68468, 66099, 10623, 62857];

#[test]
fn numbers_below_a_limit_are_uniform() {
    let mut rng = Rng::stream(7, 0);
    let (cells, draws) = (50, 500_000u32);
    let mut counts = vec![0u32; cells];
    (0..draws).for_each(|_| counts[rng.below(cells as u64) as usize] += 1);
    let expected = f64::from(draws) / cells as f64;
    let chi_square: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
    // 49 degrees of freedom: the 0.999 quantile is 85.4. The seed is fixed, so this never flickers.
    assert!(chi_square < 85.4, "{chi_square}");
}

#[test]
fn an_empty_histogram_has_defined_answers() {
    let empty = Histogram::default();
    assert_eq!((empty.count(), empty.min(), empty.max(), empty.quantile(0.5)), (0, 0, 0, 0));
    assert_eq!(empty.mean(), 0.0);
    assert!(empty.to_hdr_base64().starts_with("HISTFAAA"));
}

fn reference() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(1, 1 << 43, 3).unwrap()
}

fn latencies() -> impl Strategy<Value = Vec<u64>> {
    let latency = prop_oneof![1..600u64, 1_000..2_000_000u64, 1..100_000_000_000u64];
    prop::collection::vec(latency, 1..400)
}

fn assert_near(ours: u64, exact: u64) {
    let allowed = 0.004 * exact as f64 + 1.0;
    assert!((ours as f64 - exact as f64).abs() <= allowed, "{ours} is not near {exact}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn percentiles_are_those_of_hdrhistogram(latencies in latencies(), parts in 1..4usize) {
        let mut exact = reference();
        let mut threads = vec![Histogram::default(); parts];
        for (place, &latency) in latencies.iter().enumerate() {
            exact.record(latency).unwrap();
            threads[place % parts].record(latency, 1);
        }
        let mut merged = Histogram::default();
        threads.iter().for_each(|thread| merged.merge(thread));
        prop_assert_eq!(merged.count(), latencies.len() as u64);
        prop_assert_eq!(merged.min(), *latencies.iter().min().unwrap());
        prop_assert_eq!(merged.max(), *latencies.iter().max().unwrap());
        let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
        prop_assert!((merged.mean() - mean).abs() <= 1e-6 * mean);
        for quantile in [0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
            assert_near(merged.quantile(quantile), exact.value_at_quantile(quantile));
        }
    }

    #[test]
    fn exported_parts_add_up_to_the_whole(latencies in latencies(), parts in 1..5usize) {
        let mut whole = Histogram::default();
        let mut machines = vec![Histogram::default(); parts];
        for (place, &latency) in latencies.iter().enumerate() {
            whole.record(latency, 1);
            machines[place % parts].record(latency, 1);
        }
        let mut merged = Histogram::default();
        for machine in &machines {
            merged.merge(&LatencyUs::of(machine).latencies(&machine.to_hdr_base64()).unwrap());
        }
        let (ours, exact) = (LatencyUs::of(&merged), LatencyUs::of(&whole));
        prop_assert!((ours.mean - exact.mean).abs() <= 0.0021, "{} is not {}", ours.mean, exact.mean);
        prop_assert_eq!(LatencyUs { mean: exact.mean, ..ours }, exact);
        prop_assert_eq!(merged.to_hdr_base64(), whole.to_hdr_base64());
    }

    #[test]
    fn the_export_is_read_by_hdrhistogram(latencies in latencies()) {
        use base64::Engine;
        let mut ours = Histogram::default();
        latencies.iter().for_each(|latency| ours.record(*latency, 3));
        let bytes = base64::engine::general_purpose::STANDARD.decode(ours.to_hdr_base64()).unwrap();
        let read: hdrhistogram::Histogram<u64> = hdrhistogram::serialization::Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .unwrap();
        prop_assert_eq!(read.len(), 3 * latencies.len() as u64);
        for quantile in [0.5, 0.99, 1.0] {
            assert_near(read.value_at_quantile(quantile), ours.quantile(quantile));
        }
    }
}
