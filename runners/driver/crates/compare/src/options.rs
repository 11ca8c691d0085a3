//! The command line of `speedbench compare`.

use lexopt::prelude::*;
use std::ffi::OsString;

use text::failure::Failure;

pub const HELP: &str = "\
Compare results that `speedbench run --json` wrote.

Usage: speedbench compare BASE.json NEW.json [NEW.json ...]
       speedbench compare --base FILE FILE... --new FILE FILE...

With one file per side the intervals come from the slices and latencies of that run; they know
nothing of how runs differ. With two or more files per side the runs are the samples.

  --base FILES...    results of one side, two or more ...
  --new FILES...     ... and of the other
  --any-driver       compare results of different driver binaries, too
  --json             one document, schema speedbench-compare.v1, instead of tables
  --help
";

#[derive(Debug, Default)]
pub struct Options {
    pub files: Vec<String>,
    pub base: Vec<String>,
    pub new: Vec<String>,
    pub any_driver: bool,
    pub json: bool,
}

/// None when help is asked for.
pub fn parse(words: Vec<OsString>) -> Result<Option<Options>, Failure> {
    let mut parser = lexopt::Parser::from_args(words);
    let mut options = Options::default();
    while let Some(word) = parser.next().map_err(bad_words)? {
        match word {
            Long("help") => return Ok(None),
            Long("base") => options.base = files(&mut parser)?,
            Long("new") => options.new = files(&mut parser)?,
            Long("any-driver") => options.any_driver = true,
            Long("json") => options.json = true,
            Value(path) => options.files.push(path.to_string_lossy().into_owned()),
            other => return Err(bad_words(other.unexpected())),
        }
    }
    options.check()?;
    Ok(Some(options))
}

pub fn files(parser: &mut lexopt::Parser) -> Result<Vec<String>, Failure> {
    let values = parser.values().map_err(bad_words)?;
    Ok(values.map(|path| path.to_string_lossy().into_owned()).collect())
}

fn bad_words(error: lexopt::Error) -> Failure {
    Failure::usage(error, "see `speedbench compare --help`")
}

impl Options {
    fn check(&self) -> Result<(), Failure> {
        let remedy = "name two files, or two and more behind each of --base and --new";
        let sides = [self.base.len(), self.new.len()];
        match (self.files.len(), sides) {
            (2.., [0, 0]) | (0, [(2..), (2..)]) => Ok(()),
            (0, [0, 0]) => Err(Failure::usage("there is nothing to compare", remedy)),
            (1, [0, 0]) => Err(Failure::usage("there is one file to compare", remedy)),
            (0, _) => Err(Failure::usage("a side has fewer than two files", remedy)),
            _ => Err(Failure::usage("files stand before --base or --new", remedy)),
        }
    }
}
