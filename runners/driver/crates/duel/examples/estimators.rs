//! Which estimator of the ratio of two servers is the best, on simulated slices and on measured ones.
//!
//! `cargo run --release -p duel --example estimators [DOCUMENT ...]`: documents of A/A duels are cut into blocks of 30 pairs.
//! The first table has the spread of the estimates (standard deviation, in % of the true ratio), the second one the
//! share of 95% intervals that hold the truth, and half their mean width.

use duel::estimate::{kept, trimmed_by, trimmed_mean};
use generator::rng::Rng;
use serde_json::Value;

/// Pairs of slices in a block, and blocks in a simulation.
const PAIRS: usize = 30;
const BLOCKS: usize = 3000;
/// The spread of a quiet slice, as a part of 1.
const QUIET: f64 = 0.02;

/// The cost of a request in the slice of base and in that of head.
type Pair = [f64; 2];
type Estimator = (&'static str, fn(&[Pair]) -> f64);

const ESTIMATORS: [Estimator; 9] = [
    ("sum/sum", |pairs| (sum(pairs, 1) / sum(pairs, 0)).ln()),
    ("mean", |pairs| trimmed(pairs, 0.0)),
    ("trim 10%", |pairs| trimmed(pairs, 0.1)),
    ("trim 20%", |pairs| trimmed(pairs, 0.2)),
    ("its sums", |pairs| ratio_of_kept_sums(pairs)),
    ("trim 30%", |pairs| trimmed(pairs, 0.3)),
    ("median", |pairs| trimmed(pairs, 0.499)),
    ("Hodges-L.", |pairs| hodges_lehmann(&logs(pairs))),
    ("medians", |pairs| (median(&column(pairs, 1)) / median(&column(pairs, 0))).ln()),
];

fn column(pairs: &[Pair], side: usize) -> Vec<f64> {
    pairs.iter().map(|pair| pair[side]).collect()
}

fn sum(pairs: &[Pair], side: usize) -> f64 {
    pairs.iter().map(|pair| pair[side]).sum()
}

fn logs(pairs: &[Pair]) -> Vec<f64> {
    pairs.iter().map(|pair| (pair[1] / pair[0]).ln()).collect()
}

fn trimmed(pairs: &[Pair], part: f64) -> f64 {
    trimmed_by(part, &logs(pairs)).expect("there are pairs").center
}

/// What the runner divides: the sums of either side over the pairs that the 20% trimmed mean keeps.
fn ratio_of_kept_sums(pairs: &[Pair]) -> f64 {
    let kept: Vec<Pair> = kept(&logs(pairs)).into_iter().map(|at| pairs[at]).collect();
    (sum(&kept, 1) / sum(&kept, 0)).ln()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

fn hodges_lehmann(values: &[f64]) -> f64 {
    let means = |at: usize| values[at..].iter().map(move |other| (values[at] + other) / 2.0);
    median(&(0..values.len()).flat_map(means).collect::<Vec<_>>())
}

/// A sum of twelve uniform numbers is nearly normal.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
}

fn exponential(rng: &mut Rng) -> f64 {
    -(-rng.unit()).ln_1p()
}

/// Student's t with three degrees of freedom, with a standard deviation of 1.
fn heavy(rng: &mut Rng) -> f64 {
    let square = (0..3).map(|_| normal(rng).powi(2)).sum::<f64>() / 3.0;
    normal(rng) / square.sqrt() / 3f64.sqrt()
}

type Noise = (&'static str, fn(&mut Rng) -> Vec<f64>);

/// The logarithms of the costs of consecutive slices.
const NOISES: [Noise; 6] = [
    ("normal", |rng| slices(|_| QUIET * normal(rng))),
    ("heavy tails", |rng| slices(|_| QUIET * heavy(rng))),
    ("bursts of one slice", |rng| {
        slices(|_| {
            let burst = if rng.unit() < 0.1 { 0.15 * exponential(rng) } else { 0.0 };
            burst + QUIET * normal(rng)
        })
    }),
    ("bursts of six slices", |rng| {
        let mut height = 0.0;
        slices(|_| {
            if rng.unit() < 1.0 / 6.0 {
                height = if rng.unit() < 0.1 { 0.15 * exponential(rng) } else { 0.0 };
            }
            height + QUIET * normal(rng)
        })
    }),
    ("AR(1), 0.6", |rng| {
        let mut state = QUIET * normal(rng);
        slices(|_| {
            state = 0.6 * state + 0.8 * QUIET * normal(rng);
            state
        })
    }),
    ("drift of 10%", |rng| slices(|at| 0.1 * at as f64 / (2 * PAIRS) as f64 + QUIET * normal(rng))),
];

fn slices(value: impl FnMut(usize) -> f64) -> Vec<f64> {
    (0..2 * PAIRS).map(value).collect()
}

/// Pairs of neighbouring slices, in an order by lot.
fn paired(slices: &[f64], rng: &mut Rng) -> Vec<Pair> {
    let pair = |two: &[f64]| {
        let first = rng.below(2) as usize;
        [two[first].exp(), two[1 - first].exp()]
    };
    slices.chunks_exact(2).map(pair).collect()
}

fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}

fn row(name: &str, blocks: &[Vec<Pair>], truth: f64) {
    let spreads = ESTIMATORS.map(|(_, estimate)| {
        let estimates: Vec<f64> = blocks.iter().map(|block| estimate(block)).collect();
        format!("{:>10.2}", 100.0 * spread(&estimates))
    });
    let judged: Vec<(bool, f64)> = blocks
        .iter()
        .filter_map(|block| trimmed_mean(&logs(block)))
        .filter_map(|found| Some(((found.center - truth).abs() <= found.reach?, found.reach?)))
        .collect();
    let held = judged.iter().filter(|(held, _)| *held).count() as f64 / judged.len() as f64;
    let width = judged.iter().map(|(_, reach)| reach).sum::<f64>() / judged.len() as f64;
    println!("{name:<24}{}  {:>6.1}% ±{:.2}%", spreads.concat(), 100.0 * held, 100.0 * width);
}

/// The pairs of the first test of a document, by server CPU time per request.
fn read(path: &str) -> Vec<Pair> {
    let text = std::fs::read_to_string(path).expect("a file");
    let document: Value = serde_json::from_str(&text).expect("a document of a duel");
    let slices = document["tests"][0]["slices"].as_array().expect("slices");
    let cost = |slice: &Value| {
        slice["server_cpu_ns"].as_f64().expect("pids were given")
            / slice["requests"].as_f64().expect("requests")
    };
    let pair = |two: &[Value]| {
        let base = usize::from(two[0]["side"] != "base");
        [cost(&two[base]), cost(&two[1 - base])]
    };
    slices.chunks_exact(2).map(pair).collect()
}

fn main() {
    let names = ESTIMATORS.map(|(name, _)| format!("{name:>10}"));
    println!("{:<24}{}  intervals of trim 20%", "spread of a block, %", names.concat());
    let mut rng = Rng::stream(1, 0);
    for (name, noise) in NOISES {
        let blocks: Vec<_> = (0..BLOCKS)
            .map(|_| {
                let slices = noise(&mut rng);
                paired(&slices, &mut rng)
            })
            .collect();
        row(name, &blocks, 0.0);
    }
    for path in std::env::args().skip(1) {
        let pairs = read(&path);
        let blocks: Vec<_> = pairs.chunks_exact(PAIRS).map(<[Pair]>::to_vec).collect();
        row(path.rsplit('/').next().unwrap_or(&path), &blocks, trimmed(&pairs, 0.2));
    }
}
