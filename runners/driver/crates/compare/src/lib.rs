//! `speedbench compare`: two or more results beside each other, with what can be known of their difference.

pub mod document;
pub mod metric;
pub mod options;
pub mod pairs;

pub mod result_file;
pub mod statistics;
pub mod table;

use std::ffi::OsString;

use crate::document::Document;
use crate::options::{HELP, parse};
use crate::pairs::compare;
use crate::result_file::ResultFile;
use text::failure::Failure;

/// Compare as the words after `compare` say; the text for stdout.
pub fn run(words: Vec<OsString>) -> Result<String, Failure> {
    let Some(options) = parse(words)? else { return Ok(HELP.to_owned()) };
    let sides = match options.files.as_slice() {
        [] => vec![(read(&options.base)?, read(&options.new)?)],
        [base, others @ ..] => {
            let base = ResultFile::read(base)?;
            let beside = |other: &String| Ok((vec![base.clone()], vec![ResultFile::read(other)?]));
            others.iter().map(beside).collect::<Result<_, Failure>>()?
        }
    };
    let pair = |(base, new): &(Vec<ResultFile>, Vec<ResultFile>)| compare(base, new, options.any_driver);
    let comparisons = sides.iter().map(pair).collect::<Result<_, _>>()?;
    let document = Document { schema: "speedbench-compare.v1", confidence: 0.95, comparisons };
    Ok(match options.json {
        true => serde_json::to_string(&document).expect("the document has string keys only") + "\n",
        false => table::render(&document),
    })
}

fn read(paths: &[String]) -> Result<Vec<ResultFile>, Failure> {
    paths.iter().map(|path| ResultFile::read(path)).collect()
}
