//! Which keys and values the server sees, against the definitions. Chi-square quantiles and the normal distribution are
//! those of `statrs`. Seeds are fixed: a test that passes passes always.

use std::collections::HashMap;

use crate::support::{Manner, Server, written};
use generator::skew::Scatter;
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

const REQUESTS: u64 = 200_000;

/// The document of one phase, written as the fields of a TOML table, and the server that has seen it.
fn seen(name: &str, phase: &str) -> (Server, serde_json::Value) {
    let server = Server::unix(Manner::Honest);
    let path = written(&format!("{name}.toml"), &format!("[[phase]]\n{phase}"));
    let document = server.document(&format!("--workload {path}"));
    (server, document)
}

/// How often each key was asked for.
fn asked(name: &str, count: usize, keys: &str) -> Vec<u64> {
    let phase = format!(
        "test = 'get'\nclients = 4\nthreads = 2\npipeline = 100\nrequests = {REQUESTS}\nkeys = {{ count = {count}, {keys} }}"
    );
    let (server, _) = seen(name, &phase);
    let mut asked = vec![0; count];
    for stream in &server.seen().streams {
        let requests = stream.split(|byte| *byte == b':').skip(1);
        for request in requests {
            let number: usize = std::str::from_utf8(&request[..12]).unwrap().parse().unwrap();
            asked[number] += 1;
        }
    }
    assert_eq!(asked.iter().sum::<u64>(), REQUESTS);
    asked
}

/// Whether counts have these probabilities: Pearson's chi-square at p = 0.001. Neighbours are put together until 20 are
/// expected.
fn agree(counts: &[u64], weights: &[f64]) -> bool {
    let (draws, total) = (counts.iter().sum::<u64>() as f64, weights.iter().sum::<f64>());
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut seen, mut expected) = (0.0, 0.0);
    let mut left = draws;
    for (count, weight) in counts.iter().zip(weights) {
        seen += *count as f64;
        expected += draws * weight / total;
        left -= draws * weight / total;
        if expected >= 20.0 && !(1e-6..20.0).contains(&left) {
            statistic += (seen - expected) * (seen - expected) / expected;
            cells += 1;
            (seen, expected) = (0.0, 0.0);
        }
    }
    if expected > 0.0 {
        statistic += (seen - expected) * (seen - expected) / expected;
        cells += 1;
    }
    let limit = ChiSquared::new(f64::from(cells - 1)).unwrap().inverse_cdf(0.999);
    statistic < limit
}

fn zipf(count: usize, exponent: f64) -> Vec<f64> {
    (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect()
}

/// Counts in the order of the ranks that were scattered over the keys.
fn by_rank(asked: &[u64]) -> Vec<u64> {
    let scatter = Scatter::new(asked.len() as u64);
    (0..asked.len()).map(|rank| asked[scatter.place(rank as u64) as usize]).collect()
}

#[test]
fn uniform_keys_are_uniform() {
    let counts = asked("uniform", 1000, "distribution = 'uniform'");
    assert!(agree(&counts, &[1.0; 1000]));
    assert!(!agree(&counts, &zipf(1000, 0.1)), "the test tells distributions apart");
}

#[test]
fn sequential_keys_come_equally_often() {
    let counts = asked("sequential", 1000, "distribution = 'sequential'");
    assert!(counts.iter().all(|count| *count == REQUESTS / 1000));
}

#[test]
fn zipf_ranks_have_their_weights() {
    for (count, exponent) in
        [(1000, 0.5), (1000, 0.99), (1000, 1.0), (1000, 2.5), (200_000, 0.7), (200_000, 1.0)]
    {
        let keys = format!("distribution = 'zipf', exponent = {exponent}");
        let counts = asked(&format!("zipf-{count}-{exponent}"), count, &keys);
        assert!(agree(&by_rank(&counts), &zipf(count, exponent)), "{count} {exponent}");
        assert!(!agree(&counts, &zipf(count, exponent)), "ranks are not the order of the keys");
        assert!(!agree(&by_rank(&counts), &zipf(count, exponent + 0.05)), "{count} {exponent}");
    }
}

#[test]
fn zipf_ranks_count_up_from_the_first() {
    for (count, first) in [(1000, 1), (1000, 500), (200_000, 10)] {
        let keys = format!("distribution = 'zipf', exponent = 1.0, first_rank = {first}");
        let counts = asked(&format!("zipf-from-{count}-{first}"), count, &keys);
        let weights: Vec<f64> = (0..count).map(|key| 1.0 / (first + key) as f64).collect();
        assert!(agree(&counts, &weights), "{count} {first}");
        assert!(!agree(&by_rank(&counts), &weights), "{count} {first}");
    }
}

#[test]
fn latest_keys_are_the_last() {
    let mut counts = asked("latest", 1000, "distribution = 'latest'");
    counts.reverse();
    assert!(agree(&counts, &zipf(1000, 0.99)));
}

#[test]
fn gaussian_keys_are_a_bell_that_is_cut() {
    for deviation in [0.05, 0.125, 0.6] {
        let counts = asked("gaussian", 1000, &format!("distribution = 'gaussian', deviation = {deviation}"));
        let bell = Normal::new(500.0, deviation * 1000.0).unwrap();
        let weights: Vec<f64> =
            (0..1000).map(|key| bell.cdf(f64::from(key + 1)) - bell.cdf(f64::from(key))).collect();
        assert!(agree(&counts, &weights), "{deviation}");
        assert!(!agree(&counts, &[1.0; 1000]));
    }
}

#[test]
fn hot_keys_get_their_share() {
    for (keys, hot, requests) in [("", 200, 0.8), (", hot_keys = 0.01, hot_requests = 0.5", 10, 0.5)] {
        let counts = asked(&format!("hotspot-{hot}"), 1000, &format!("distribution = 'hotspot'{keys}"));
        let weight = |key| {
            if key < hot { requests / f64::from(hot) } else { (1.0 - requests) / f64::from(1000 - hot) }
        };
        assert!(agree(&counts, &(0..1000).map(weight).collect::<Vec<_>>()));
    }
}

/// How often values of each size were stored; every key once.
fn sizes(name: &str, values: &str) -> HashMap<usize, u64> {
    let phase = format!("test = 'get'\nprefill = true\nkeys.count = 20000\nvalues = {values}\nrequests = 1");
    let (server, document) = seen(name, &phase);
    assert_eq!(document["prefill"]["keys_in_server"], 20_000);
    let seen = server.seen();
    assert_eq!((seen.calls("SET"), seen.store.len()), (20_000, 20_000));
    let mut sizes = HashMap::new();
    for value in seen.store.values() {
        *sizes.entry(value.len()).or_default() += 1;
    }
    sizes
}

#[test]
fn value_sizes_have_their_weights() {
    let counts = |sizes: &HashMap<usize, u64>, of: &[usize]| {
        of.iter().map(|size| sizes.get(size).copied().unwrap_or(0)).collect::<Vec<u64>>()
    };
    let range = sizes("range", "{ range = [95, 104] }");
    assert!(agree(&counts(&range, &(95..=104).collect::<Vec<_>>()), &[1.0; 10]));
    let weighted = sizes("weighted", "{ weighted = [[0, 1], [32, 90], [1024, 9]] }");
    assert_eq!(weighted.len(), 3);
    assert!(agree(&counts(&weighted, &[0, 32, 1024]), &[1.0, 90.0, 9.0]));
    assert_eq!(sizes("fixed", "{ bytes = 7 }"), HashMap::from([(7, 20_000)]));
}

#[test]
fn the_seed_makes_the_bytes_whatever_the_threads() {
    let loads = [
        "test = 'set'\nkeys = { count = 1000, distribution = 'sequential' }",
        "test = 'get:9+set:1'\nkeys = { count = 100000, distribution = 'zipf' }",
        "test = 'get:9+set:1'\nkeys = { count = 1000, distribution = 'latest' }\nvalues = { range = [0, 300] }",
        "test = 'set'\nkeys = { count = 1000, distribution = 'gaussian' }\nvalues = { weighted = [[3, 1], [9, 2]] }",
        "sequence = [{ request = 'SET a:__rand_1st__ b__data__c EX __ttl__', times = 2 }, { test = 'get' }]\n\
         keys = { count = 1000, distribution = 'hotspot' }\nttl_s = [1, 1000]\nwindow = 'rolling'",
    ];
    for (at, load) in loads.into_iter().enumerate() {
        let streams = |threads: u32| {
            let phase = format!("{load}\nclients = 6\npipeline = 3\nrequests = 1000\nthreads = {threads}");
            let (server, _) = seen(&format!("threads-{at}-{threads}"), &phase);
            let mut streams = server.seen().streams.clone();
            streams.sort();
            streams
        };
        let one = streams(1);
        assert_eq!(one.len(), 6);
        assert!(one.iter().all(|stream| !stream.is_empty()) && one.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(one, streams(2), "{load}");
    }
}

#[test]
fn times_to_live_are_drawn_from_their_range() {
    let phase = "commands = [{ request = 'SET key:__key__ x EX __ttl__' }]\nttl_s = [8, 12]\nclients = 2\nrequests = 5000";
    let (server, document) = seen("ttl", phase);
    assert_eq!(document["tests"][0]["requests"], 5000);
    let text: Vec<u8> = server.seen().streams.concat();
    let text = String::from_utf8(text).unwrap();
    let mut counts = [0; 5];
    for request in text.split("EX\r\n$").skip(1) {
        let (length, rest) = request.split_once("\r\n").unwrap();
        let seconds = rest.split("\r\n").next().unwrap();
        assert_eq!(length, seconds.len().to_string());
        counts[seconds.parse::<usize>().unwrap() - 8] += 1;
    }
    assert!(agree(&counts, &[1.0; 5]), "{counts:?}");
}
