//! `speedbench join`: the results of machines that shared one load, as the result of that load.

pub mod machines;
pub mod options;
pub mod overlap;
pub mod sums;

use crate::machines::MachineFile;
use crate::options::Options;
use crate::overlap::Overlap;
use report::document::Document;
use report::joined::{Joined, JoinedPart};
use report::{csv, table};
use text::failure::Failure;
use text::units::round;

/// What the command does.
pub const ABOUT: &str = "\
Make one result of the documents of all machines that shared one load (`run --part I/N --json`).

Counts are added, latencies merged bucket by bucket, and rates added, each over its own window: the windows must have \
--overlap of the longest one in common. The clocks of the machines must agree.";

/// Join as `options` say; the text for stdout.
pub fn run(options: &Options) -> Result<String, Failure> {
    options.check()?;
    let machines = options.files.iter().map(|path| MachineFile::read(path)).collect::<Result<_, _>>()?;
    let document = join(machines, options.overlap)?;
    Ok(match (options.json, options.csv) {
        (true, _) => document.to_json() + "\n",
        (false, true) => csv::render(&document),
        (false, false) => table::render(&document),
    })
}

/// One document of those of all `machines`, whose windows must have the share `least_overlap` in common.
fn join(machines: Vec<MachineFile>, least_overlap: f64) -> Result<Document, Failure> {
    let machines = machines::in_order(machines)?;
    let overlap = Overlap::of(&machines);
    overlap.check(least_overlap)?;
    let parts = machines.iter().map(part).collect();
    let test = sums::test(&machines, &overlap)?;
    let threads = machines.iter().map(|machine| machine.document.driver.threads).sum();
    let mut first = machines.into_iter().next().expect("there are several").document;
    first.driver.threads = threads;
    Ok(Document {
        part: None,
        joined: Some(Joined { overlap: round(overlap.share(), 6), parts }),
        prefill: test.prefill.clone(),
        tests: vec![test],
        ..first
    })
}

fn part(machine: &MachineFile) -> JoinedPart {
    let test = machine.test();
    JoinedPart {
        argv: machine.document.driver.argv.clone(),
        environment: machine.document.environment.clone(),
        window_began_at: test.window_began_at,
        window_s: test.window_s,
        requests: test.requests,
        throughput_rps: test.throughput_rps,
        client_ns_per_request: test.client_cpu.ns_per_request,
    }
}

#[cfg(test)]
mod tests {
    use engine::histogram::Histogram;
    use engine::latency::LatencyUs;
    use engine::part::Part;
    use proptest::prelude::*;

    use super::*;

    const GOLDEN: &str = include_str!("../../../tests/golden/speedbench.v1.json");
    const WIDTH_MS: u64 = 100;

    /// What one machine measured as part `number` of `of`: these latencies in ns, spread over ten slices.
    fn machine(number: usize, of: usize, latencies: &[u64]) -> MachineFile {
        let mut document: Document = serde_json::from_str(GOLDEN).unwrap();
        document.tests.truncate(1);
        let part = Part { number, of };
        document.part = Some(part);
        let test = &mut document.tests[0];
        let mut latency = Histogram::default();
        latencies.iter().for_each(|ns| latency.record(*ns, 1));
        test.requests = latencies.len() as u64;
        (test.unfinished, test.window_s) = (0, 1.0);
        (test.latency_us, test.latency_hdr_v2) = (LatencyUs::of(&latency), latency.to_hdr_base64());
        test.throughput_rps = test.requests as f64;
        test.slices.width_ms = WIDTH_MS;
        let counted = |slice| latencies.iter().skip(slice).step_by(10).count() as u64;
        test.slices.requests = (0..10).map(counted).collect();
        test.slices.client_cpu_ns = vec![1000; 10];
        (test.client_cpu.user_ns, test.client_cpu.system_ns) = (6000, 4000);
        MachineFile { path: format!("part{number}.json"), part, document }
    }

    fn refusal(machines: Vec<MachineFile>) -> String {
        join(machines, 0.95).unwrap_err().to_string()
    }

    proptest! {
        #[test]
        fn the_parts_of_a_load_are_joined_to_what_one_machine_would_have_measured(
            latencies in prop::collection::vec(1_000..90_000_000u64, 1..300),
            of in 2..5usize,
            turn in 0..4usize,
        ) {
            let whole = machine(1, 1, &latencies);
            let share = |number: usize| -> Vec<u64> {
                latencies.iter().skip(number - 1).step_by(of).copied().collect()
            };
            let mut machines: Vec<MachineFile> =
                (1..=of).map(|number| machine(number, of, &share(number))).collect();
            // The order in which documents are named is nothing to go by.
            machines.rotate_left(turn % of);
            let document = join(machines, 0.95).unwrap();
            let (test, exact) = (&document.tests[0], whole.test());
            prop_assert_eq!((test.requests, test.throughput_rps), (exact.requests, exact.throughput_rps));
            prop_assert_eq!(test.window_s, 1.0);
            prop_assert_eq!(&test.latency_hdr_v2, &exact.latency_hdr_v2);
            prop_assert_eq!(LatencyUs { mean: exact.latency_us.mean, ..test.latency_us }, exact.latency_us);
            prop_assert!((test.latency_us.mean - exact.latency_us.mean).abs() <= 0.0021);
            prop_assert_eq!(test.slices.requests.iter().sum::<u64>(), test.requests);
            prop_assert_eq!(&test.slices.client_cpu_ns, &vec![1000 * of as u64; 10]);
            prop_assert_eq!(test.client_cpu.user_ns + test.client_cpu.system_ns, 10_000 * of as u64);
            let joined = document.joined.as_ref().unwrap();
            prop_assert_eq!((joined.overlap, joined.parts.len()), (1.0, of));
            // The document is one like any other.
            let again: Document = serde_json::from_str(&document.to_json()).unwrap();
            prop_assert_eq!(again.to_json(), document.to_json());
        }
    }

    #[test]
    fn a_part_that_began_later_shifts_the_slices() {
        let latencies: Vec<u64> = (1..=100).map(|at| at * 1000).collect();
        let mut parts = vec![machine(1, 2, &latencies), machine(2, 2, &latencies)];
        let ms = |ms| jiff::SignedDuration::from_millis(ms);
        let test = &mut parts[1].document.tests[0];
        test.window_began_at = test.window_began_at.checked_add(ms(220)).unwrap();
        test.slices.requests = (100..110).collect();
        let refused = join(parts, 0.95).unwrap_err().to_string();
        assert!(refused.contains("0.780 s of 1.000 s in common, less than the share 0.95"), "{refused}");
        let mut parts = vec![machine(1, 2, &latencies), machine(2, 2, &latencies)];
        parts[0].document.tests[0].slices.requests = (0..10).collect();
        let test = &mut parts[1].document.tests[0];
        test.window_began_at = test.window_began_at.checked_add(ms(220)).unwrap();
        test.slices.requests = (100..110).collect();
        let document = join(parts, 0.7).unwrap();
        assert_eq!(document.joined.unwrap().overlap, 0.78);
        assert_eq!(document.tests[0].slices.requests, [102, 104, 106, 108, 110, 112, 114, 116]);
    }

    #[test]
    fn what_is_no_part_of_the_load_is_refused_in_one_sentence() {
        let parts = || (machine(1, 2, &[1000]), machine(2, 2, &[1000]));
        type Change = fn(&mut Document);
        let changes: [(Change, &str); 6] = [
            (|other| other.driver.seed = 9, "the seed of part1.json is 1, and of part2.json 9"),
            (|other| other.driver.digest = "sha256:1".into(), "the driver of part1.json is sha256:"),
            (|other| other.driver.workload_digest = "sha256:1".into(), "the workload of part1.json is"),
            (
                |other| other.target.address = "tcp:b:1".into(),
                "the server of part1.json is unix:/run/redis.sock",
            ),
            (|other| other.target.protocol = "memcached".into(), "the protocol of part1.json is resp"),
            (|other| other.tests[0].slices.width_ms = 50, "the width of slices of part1.json is 100 ms"),
        ];
        for (change, sentence) in changes {
            let (first, mut other) = parts();
            change(&mut other.document);
            let message = refusal(vec![first, other]);
            assert!(message.starts_with(sentence), "{message}");
        }
        assert!(refusal(vec![parts().0, parts().0]).contains("are both part 1 of 2"));
        let two_of_three = vec![machine(1, 3, &[1000]), machine(3, 3, &[1000])];
        assert!(refusal(two_of_three).contains("part 2 of 3 is missing"));
        assert!(refusal(vec![machine(1, 2, &[1]), machine(2, 3, &[1])]).contains("number of parts"));
    }
}
