//! The documents of the machines, checked to be all parts of one load.

use engine::part::Part;
use report::document::Document;
use report::result::TestResult;
use report::written;
use text::failure::Failure;

/// What one machine measured.
pub struct MachineFile {
    pub path: String,
    pub part: Part,
    pub document: Document,
}

impl MachineFile {
    pub fn read(path: &str) -> Result<MachineFile, Failure> {
        let document: Document = written::read_part(path)?;
        let unfit = |why: &str| {
            Failure::run(format!("{path} {why}"), "measure each part with `run --part I/N --json`")
        };
        match document.part {
            None if document.joined.is_some() => Err(unfit("was joined already")),
            None => Err(unfit("is no part: its load was that of one machine")),
            Some(_) if document.tests.len() != 1 => Err(unfit("has more than one test")),
            Some(part) => Ok(MachineFile { path: path.to_owned(), part, document }),
        }
    }

    pub fn test(&self) -> &TestResult {
        &self.document.tests[0]
    }
}

/// `machines` by the numbers of their parts, when they measured all parts of one load.
pub fn in_order(mut machines: Vec<MachineFile>) -> Result<Vec<MachineFile>, Failure> {
    machines.sort_by_key(|machine| machine.part);
    let first = &machines[0];
    for machine in &machines[1..] {
        one_load(first, machine)?;
    }
    for pair in machines.windows(2) {
        if pair[0].part == pair[1].part {
            let (number, of) = (pair[0].part.number, pair[0].part.of);
            return Err(Failure::run(
                format!("{} and {} are both part {number} of {of}", pair[0].path, pair[1].path),
                "give each machine a part of its own",
            ));
        }
    }
    let of = first.part.of;
    match (1..=of).find(|number| machines.iter().all(|machine| machine.part.number != *number)) {
        None => Ok(machines),
        Some(number) => {
            Err(Failure::run(format!("part {number} of {of} is missing"), "name the documents of all parts"))
        }
    }
}

/// Refuse documents that are no parts of one load: what differs, and how to measure it alike.
fn one_load(first: &MachineFile, other: &MachineFile) -> Result<(), Failure> {
    let (driver, its_driver) = (&first.document.driver, &other.document.driver);
    let (target, its_target) = (&first.document.target, &other.document.target);
    let width = |machine: &MachineFile| format!("{} ms", machine.test().slices.width_ms);
    let pairs = [
        ("number of parts", first.part.of.to_string(), other.part.of.to_string(), "share the load alike"),
        ("driver", driver.digest.clone(), its_driver.digest.clone(), "run one binary on all machines"),
        (
            "workload",
            driver.workload_digest.clone(),
            its_driver.workload_digest.clone(),
            "give all machines the same options of the load",
        ),
        ("seed", driver.seed.to_string(), its_driver.seed.to_string(), "give all machines one --seed"),
        ("protocol", target.protocol.to_string(), its_target.protocol.to_string(), "give one --protocol"),
        (
            "server",
            target.address.clone(),
            its_target.address.clone(),
            "name the server alike on all machines, as no other proof is there that it is one",
        ),
        ("width of slices", width(first), width(other), "give all machines one --slice-ms"),
    ];
    match pairs.into_iter().find(|(_, value, its_value, _)| value != its_value) {
        None => Ok(()),
        Some((name, value, its_value, remedy)) => Err(Failure::run(
            format!("the {name} of {} is {value}, and of {} {its_value}", first.path, other.path),
            remedy,
        )),
    }
}
