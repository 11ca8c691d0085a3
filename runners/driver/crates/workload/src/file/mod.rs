//! Workload files: TOML or JSON in, checked phases out, and phases as a file has them. Errors name the key and its place.

pub mod commands;
pub mod keys_and_values;
pub mod phase;
pub mod write;
pub mod written;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::file::phase::phase;
use crate::file::written::read_as;
use crate::mode::Mode;
use crate::phase::Phase;
use crate::plan;
use crate::protocol_name::ProtocolName;
use text::checks::require;
use text::failure::Failure;

/// What a file says.
#[derive(Debug)]
pub struct WorkloadFile {
    pub protocol: ProtocolName,
    pub seed: u64,
    pub phases: Vec<Phase>,
}

/// No workload is longer, in bytes.
const LONGEST: u64 = 16 << 20;

/// The file at `path`: JSON when its name ends so, or when it is `-`, which is stdin. Its recordings are in the folder
/// `recordings`, or else in that of the file.
pub fn read(path: &str, recordings: Option<&Path>) -> Result<WorkloadFile, Failure> {
    let mut text = String::new();
    let mut up_to_limit = |source: &mut dyn Read| source.take(LONGEST + 1).read_to_string(&mut text);
    let read = match path {
        "-" => up_to_limit(&mut std::io::stdin()),
        _ => File::open(path).and_then(|mut file| up_to_limit(&mut file)),
    };
    let length = read
        .map_err(|error| Failure::usage(format!("cannot read {path} ({error})"), "give --workload FILE"))?;
    require(length as u64 <= LONGEST, &format!("{path} is longer than 16 MiB"), "give --workload FILE")?;
    let json = path == "-" || path.ends_with(".json");
    let place = if path == "-" { "stdin" } else { path };
    let file = parse(&text, json).map_err(|failure| failure.within(place))?;
    let folder = recordings.or(Path::new(path).parent()).unwrap_or(Path::new(""));
    with_recordings(file, folder).map_err(|it| it.within(place))
}

/// `file` with the recordings that it names found in its `folder`.
fn with_recordings(mut file: WorkloadFile, folder: &Path) -> Result<WorkloadFile, Failure> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for phase in &mut file.phases {
        if let Mode::Replay(setting) = &mut phase.mode {
            *setting = setting.clone().in_folder(folder)?;
        }
    }
    Ok(file)
}

/// The phases that `text` describes.
pub fn parse(text: &str, json: bool) -> Result<WorkloadFile, Failure> {
    let document: Value = match json {
        true => serde_json::from_str(text).map_err(|error| Failure::usage(error, "write JSON"))?,
        false => toml::from_str(text).map_err(|error| not_toml(text, &error))?,
    };
    // TOML has no null: its nan and inf are read as null.
    require(json || !has_null(&document), "nan or inf is given", "give numbers")?;
    let document: Document = read_as(document)?;
    require(!document.phase.is_empty(), "there is no phase", "write at least one [[phase]]")?;
    let mut phases: Vec<Phase> = Vec::new();
    for (at, value) in document.phase.into_iter().enumerate() {
        let place = place(at, &value);
        phases.push(phase(value, at, document.protocol).map_err(|failure| failure.within(&place))?);
    }
    plan::check_names(&phases)?;
    Ok(WorkloadFile { protocol: document.protocol, seed: document.seed, phases })
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

fn not_toml(text: &str, error: &toml::de::Error) -> Failure {
    let before = error.span().map_or("", |span| &text[..span.start]);
    let line = before.matches('\n').count() + 1;
    Failure::usage(format!("line {line}: {}", error.message()), "write TOML, or JSON in a file named *.json")
}

/// `phase 2 (mixed)`
fn place(at: usize, phase: &Value) -> String {
    match phase.get("name").or(phase.get("test")).and_then(Value::as_str) {
        Some(name) => format!("phase {} ({name})", at + 1),
        None => format!("phase {}", at + 1),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    protocol: ProtocolName,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default)]
    phase: Vec<Value>,
}

fn one() -> u64 {
    1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::file::write::document;
    use crate::phase::Length;
    use generator::values::Sizes;

    fn message(text: &str) -> String {
        parse(text, false).unwrap_err().to_string()
    }

    #[test]
    fn a_phase_has_the_defaults_of_the_flags() {
        let file = parse("[[phase]]\ntest = 'get'", false).unwrap();
        let phase = &file.phases[0];
        assert_eq!((file.seed, phase.name.as_str(), phase.clients), (1, "get", 50));
        assert_eq!((phase.length, phase.warmup), (Length::DEFAULT, Duration::from_millis(500)));
        assert_eq!((phase.keys.count, &phase.values), (1, &Sizes::Fixed(3)));
    }

    #[test]
    fn errors_name_key_and_place() {
        let line = message("[[phase]]\ntest='get'\n[[phase]]\nname='mixed'\ntest='set'\nkeys.count='many'");
        assert!(line.starts_with("phase 2 (mixed): keys.count: invalid type: string"), "{line}");
        assert!(
            message("[[phase]]\ntest='get'\nclient=3").starts_with("phase 1 (get): client: unknown field")
        );
        assert!(message("seed=1\nphase=1]").starts_with("line 2: "));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let modes = r#"
            [[phase]]
            mode = "pubsub"
            pubsub = { publishers = 2, channels = 8, channels_each = 3, subscribe = "shards" }
            rate = 50.5
            [[phase]]
            mode = "blocking"
            blocking = { command = "xreadgroup", block_s = 0.0 }
            [[phase]]
            mode = "replay"
            replay = { file = "traffic/monitor.txt", speed = "fast", format = "monitor" }
            clients = 3
            [[phase]]
            name = "slow"
            mode = "replay"
            replay = { file = "traffic/monitor.txt", speed = 0.5 }
            requests = 10
            [[phase]]
            mode = "search"
            test = "get:2+set"
            limit = { percentile = 99.9, us = 500 }
            [[phase]]
            mode = "sweep"
            rates = [1, 2.5]
            arrivals = "poisson"
            sequence = [{ test = "set", times = 2, name = "store" }, { request = "PING 'a b'" }]
        "#;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let texts = files.map(|path| std::fs::read_to_string(path).unwrap());
        for text in texts.chain([modes.to_owned()]) {
            let file = parse(&text, false).unwrap();
            let written = document(file.protocol, &file.phases);
            let again = parse(&written.to_string(), true).unwrap();
            assert_eq!(format!("{:?}", again.phases), format!("{:?}", file.phases));
            assert_eq!(document(again.protocol, &again.phases), written);
        }
    }
}
