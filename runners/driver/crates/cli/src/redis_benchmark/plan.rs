//! Which tests run, and with which commands.

use crate::redis_benchmark::custom;
use crate::redis_benchmark::options::Options;
use crate::redis_benchmark::planned::{PlannedTest, placeholders};
use crate::redis_benchmark::suite::{self, RunsIn, Test};
use protocol::command::Command;
use protocol::expectation::Expectation;
use protocol::resp;
use protocol::script::Script;
use protocol::template::Part;
use text::failure::Failure;

fn selected_tests(options: &Options) -> Result<Vec<PlannedTest>, Failure> {
    if !options.command.is_empty() {
        return custom::plan(options).map(|planned| vec![planned]);
    }
    if let Some(unknown) =
        options.tests.names.iter().flat_map(|list| list.split(',')).find(|name| !is_known(name))
    {
        let known: Vec<&str> = names().collect();
        return Err(Failure::usage(
            format!("there is no test '{unknown}'"),
            format!("-t takes {}", known.join(",")),
        ));
    }
    Ok(suite::TESTS
        .iter()
        .filter(|test| is_selected(test, options))
        .map(|test| planned(test, options))
        .collect())
}

fn names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&str> = suite::TESTS.iter().flat_map(|test| test.names.iter().copied()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

fn is_known(name: &str) -> bool {
    names().any(|known| known == name)
}

fn is_selected(test: &Test, options: &Options) -> bool {
    match &options.tests.names {
        None => match test.runs_in {
            RunsIn::All => true,
            RunsIn::Since(version) => options.is_valkey || options.tests.stands_for >= version,
            RunsIn::Valkey => options.is_valkey,
        },
        Some(list) => list.split(',').any(|name| test.names.contains(&name)),
    }
}

fn planned(test: &Test, options: &Options) -> PlannedTest {
    let fcall = test.names == ["fcall"];
    let library = || suite::library(1, options.tests.keys_in_fcall > 0);
    let before = fcall.then(|| ["FUNCTION", "LOAD", "REPLACE", &library()].map(str::to_owned).to_vec());
    PlannedTest {
        title: test.title.to_owned(),
        script: Script::of(command(test, options)),
        payload_bytes: options.load.value_bytes,
        before,
    }
}

fn command(test: &Test, options: &Options) -> Command {
    if test.words.is_empty() {
        let parts = [Part::Literal(b"PING\r\n".to_vec())];
        return Command::new(&parts, Expectation::to(&["PING"], 0));
    }
    let words: Vec<String> = test.words.split(' ').flat_map(|word| expanded(word, options)).collect();
    let words = repeated(words);
    let expectation = Expectation::to(&words, options.load.value_bytes);
    resp::template(&words, &placeholders(options), expectation)
}

/// A word of the table with its letters replaced.
fn expanded(word: &str, options: &Options) -> Vec<String> {
    let tag = if options.endpoint.access.cluster { ":{tag}" } else { "" };
    let one = |text: &str| vec![text.to_owned()];
    match word {
        "D" => one("__data__"),
        "D*10" => one("__data__*10"),
        "S" if options.load.keyspace.is_some() => one("__rand_int__"),
        "S" => one("0"),
        // Beside a score that is drawn, it counts for itself.
        "E" if options.load.keyspace.is_some() => one("element:__rand_1st__"),
        "E" => one("element:__rand_int__"),
        "L" => vec![suite::library(options.tests.functions, false)],
        "K" => {
            let keys = (1..=options.tests.keys_in_fcall).map(|key| format!("key{key}"));
            [options.tests.keys_in_fcall.to_string()].into_iter().chain(keys).collect()
        }
        _ => match word.split_once('T').filter(|(name, _)| name.chars().all(char::is_lowercase)) {
            Some((name, rest)) if !name.is_empty() => vec![format!("{name}{tag}{rest}")],
            _ => one(word),
        },
    }
}

/// `*10` behind the last word: all words but the first come ten times.
fn repeated(words: Vec<String>) -> Vec<String> {
    let Some(last) = words.last().and_then(|word| word.strip_suffix("*10")).map(str::to_owned) else {
        return words;
    };
    let (name, middle) = (&words[0], &words[1..words.len() - 1]);
    let round: Vec<String> = middle.iter().cloned().chain([last]).collect();
    [name.clone()].into_iter().chain(round.iter().cloned().cycle().take(10 * round.len())).collect()
}

/// The tests that are asked for, checked.
pub fn tests(options: &Options) -> Result<Vec<PlannedTest>, Failure> {
    let tests = selected_tests(options)?;
    tests.iter().try_for_each(|test| options.check_buffers(&test.script))?;
    Ok(tests)
}
