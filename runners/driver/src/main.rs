//! `speedbench`: exit code 0 with a result on stdout, or one line on stderr with 1 (run failed) or 2 (usage).

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run(std::env::args_os().collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // When stderr cannot be written either, the exit code remains.
            let _ = writeln!(io::stderr(), "speedbench: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
