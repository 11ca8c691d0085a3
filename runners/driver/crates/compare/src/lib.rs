//! `speedbench compare`: two or more results beside each other, with intervals of their differences.

pub mod document;
pub mod metric;
pub mod options;
pub mod pairs;

pub mod result_file;
pub mod statistics;
pub mod table;

use crate::document::Document;
use crate::options::Options;
use crate::pairs::compare;
use crate::result_file::ResultFile;
use text::failure::Failure;

/// What the command does.
pub const ABOUT: &str = "\
Compare results that `speedbench run --json` wrote.

With one file per side the intervals come from the slices and latencies of that run; they know nothing of how runs \
differ. With two or more files per side the runs are the samples.";

/// Compare as `options` say; the text for stdout.
pub fn run(options: &Options) -> Result<String, Failure> {
    options.check()?;
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
