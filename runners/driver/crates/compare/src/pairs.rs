//! Checks that two sides are comparable, and their comparison.

use crate::document::{Pair, TestPair};
use crate::metric::{self, Method};
use crate::result_file::{ResultFile, Test};
use text::failure::Failure;

pub fn compare(base: &[ResultFile], new: &[ResultFile], any_driver: bool) -> Result<Pair, Failure> {
    let all: Vec<&ResultFile> = base.iter().chain(new).collect();
    let mut warnings = Vec::new();
    one_driver(&all, any_driver, &mut warnings)?;
    other_environments(&all, &mut warnings);
    let method = if base.len() > 1 { Method::Runs } else { Method::Slices };
    let names = common_names(&all);
    if names.is_empty() {
        return Err(Failure::run("the files have no test in common", "run the same tests for both"));
    }
    names.iter().try_for_each(|name| same_load(&all, name))?;
    same_workload(&all)?;
    let mut tests = Vec::new();
    for name in names {
        let of = |side: &[ResultFile]| -> Vec<Test> {
            side.iter().filter_map(|file| file.test(&name).cloned()).collect()
        };
        flags(&all, &name, &mut warnings);
        let compared = metric::compare(method, &of(base), &of(new)).map_err(|why| {
            Failure::run(
                format!("the latencies of {name} cannot be read ({why})"),
                "write the file again with `run --json`",
            )
        })?;
        warnings.extend(compared.left_out.iter().map(|why| format!("{name}: {why} and is left out")));
        tests.push(TestPair { name, metrics: compared.metrics });
    }
    let paths = |side: &[ResultFile]| side.iter().map(|file| file.path.clone()).collect();
    Ok(Pair { base: paths(base), new: paths(new), method, warnings, tests })
}

/// The tests that all files have, in the order in which they were run.
fn common_names(files: &[&ResultFile]) -> Vec<String> {
    let names = files[0].tests.iter().map(|test| test.name.clone());
    names.filter(|name| files.iter().all(|file| file.test(name).is_some())).collect()
}

fn one_driver(files: &[&ResultFile], any: bool, warnings: &mut Vec<String>) -> Result<(), Failure> {
    let first = files[0];
    for file in &files[1..] {
        let same = file.driver.digest == first.driver.digest;
        if !same && !any {
            return Err(Failure::run(
                format!("{} and {} were measured by different driver binaries", first.path, file.path),
                "measure again with one driver, or give --any-driver",
            ));
        }
        if !same {
            warnings.push(format!("{} and {} are of different driver binaries", first.path, file.path));
        }
    }
    Ok(())
}

fn other_environments(files: &[&ResultFile], warnings: &mut Vec<String>) {
    let first = files[0];
    for file in &files[1..] {
        for (fact, value) in &first.environment {
            let other = file.environment.get(fact);
            if other != Some(value) {
                let told = other.map_or("not told".to_owned(), ToString::to_string);
                warnings.push(format!("{fact} is {value} in {} and {told} in {}", first.path, file.path));
            }
        }
    }
}

/// Refuse to compare results of different loads.
fn same_load(files: &[&ResultFile], name: &str) -> Result<(), Failure> {
    let asked = |file: &ResultFile| {
        let test = file.test(name).expect("the test is in all files");
        let mut asked = test.workload.clone();
        asked.insert("protocol".into(), file.target.protocol.clone().into());
        let rate = test.open.as_ref().and_then(|open| open.get("asked_rps")).cloned();
        asked.insert("asked_rps".into(), rate.unwrap_or_default());
        asked
    };
    let first = asked(files[0]);
    for file in &files[1..] {
        let other = asked(file);
        let differs = first.keys().chain(other.keys()).find(|key| first.get(*key) != other.get(*key));
        if let Some(key) = differs {
            let told = |side: &serde_json::Map<String, serde_json::Value>| {
                side.get(key).map_or("nothing".to_owned(), ToString::to_string)
            };
            return Err(Failure::run(
                format!(
                    "{name} is another load in {} than in {}: its {key} is {}, not {}",
                    file.path,
                    files[0].path,
                    told(&other),
                    told(&first)
                ),
                "compare results of one workload",
            ));
        }
    }
    Ok(())
}

/// Refuse results with different phases: phases before a test change the keys in the server.
fn same_workload(files: &[&ResultFile]) -> Result<(), Failure> {
    let first = files[0];
    match files.iter().find(|file| file.driver.workload_digest != first.driver.workload_digest) {
        None => Ok(()),
        Some(file) => Err(Failure::run(
            format!("{} has other phases than {} beside those in common", file.path, first.path),
            "compare results of one workload",
        )),
    }
}

fn flags(files: &[&ResultFile], name: &str, warnings: &mut Vec<String>) {
    for file in files {
        let raised = file.test(name).map(|test| test.flags.join(", ")).unwrap_or_default();
        if !raised.is_empty() {
            warnings.push(format!("{name} of {} has flags: {raised}", file.path));
        }
    }
}
