//! The options of `speedbench join`.

use clap::Args;

use text::checks::require;
use text::failure::Failure;

#[derive(Debug, Args)]
pub struct Options {
    /// PART.json PART.json [...]: the documents of all parts
    #[arg(value_name = "FILE")]
    pub files: Vec<String>,
    /// the share of the longest window that all windows must have in common
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    pub overlap: f64,
    /// one document, schema speedbench.v1, instead of a table
    #[arg(long)]
    pub json: bool,
    /// one row instead of a table
    #[arg(long)]
    pub csv: bool,
}

impl Options {
    pub fn check(&self) -> Result<(), Failure> {
        require(self.files.len() > 1, "there is nothing to join", "name the documents of all parts")?;
        require(
            self.overlap > 0.0 && self.overlap <= 1.0,
            &format!("--overlap cannot be {}", self.overlap),
            "give a share above 0, at most 1",
        )?;
        require(!(self.json && self.csv), "--json and --csv are both given", "give one of them")
    }
}
