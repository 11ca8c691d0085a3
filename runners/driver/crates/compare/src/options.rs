//! The options of `speedbench compare`.

use clap::Args;

use text::failure::Failure;

/// Files, as they were named.
#[derive(Debug, Args)]
pub struct Options {
    /// BASE.json NEW.json [NEW.json ...]: results of one run per side
    #[arg(value_name = "FILE")]
    pub files: Vec<String>,
    /// results of one side, two or more ...
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub base: Vec<String>,
    /// ... and of the other
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub new: Vec<String>,
    /// compare results of different driver binaries, too
    #[arg(long)]
    pub any_driver: bool,
    /// one document, schema speedbench-compare.v1, instead of tables
    #[arg(long)]
    pub json: bool,
}

impl Options {
    pub fn check(&self) -> Result<(), Failure> {
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
