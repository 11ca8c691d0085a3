//! Documents that were written before.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::document::SCHEMA;
use engine::part::Part;
use text::failure::Failure;

/// What says whether a document can be read.
#[derive(Deserialize)]
struct Head {
    schema: String,
    #[serde(default)]
    cut_short: Option<Value>,
    #[serde(default)]
    part: Option<Part>,
    tests: Vec<Value>,
}

/// What `T` has of the document of a whole run in the file at `path`.
pub fn read<T: DeserializeOwned>(path: &str) -> Result<T, Failure> {
    let (head, document) = read_any(path)?;
    match head.part {
        None => Ok(document),
        Some(Part { number, of }) => Err(Failure::run(
            format!("{path} is part {number} of a load that {of} machines share"),
            "make one result of all parts: `speedbench join`",
        )),
    }
}

/// The same of a document that may be one part of several.
pub fn read_part<T: DeserializeOwned>(path: &str) -> Result<T, Failure> {
    read_any(path).map(|(_, document)| document)
}

fn read_any<T: DeserializeOwned>(path: &str) -> Result<(Head, T), Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::run(format!("cannot read {path} ({error})"), "name files that `run --json` wrote")
    })?;
    let unfit =
        |why: String| Failure::run(format!("{path} is no result ({why})"), "write it with `run --json`");
    let head: Head = serde_json::from_str(&text).map_err(|error| unfit(error.to_string()))?;
    if head.schema != SCHEMA {
        return Err(unfit(format!("its schema is '{}', not {SCHEMA}", head.schema)));
    }
    if let Some(cut) = &head.cut_short {
        return Err(unfit(format!("it was cut short: {}", cut["cause"].as_str().unwrap_or_default())));
    }
    if head.tests.is_empty() {
        return Err(unfit("it has no tests".to_owned()));
    }
    let document = serde_json::from_str(&text).map_err(|error| unfit(error.to_string()))?;
    Ok((head, document))
}
