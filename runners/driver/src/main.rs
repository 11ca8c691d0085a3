//! `speedbench`: exit code 0 with a result on stdout, or one line on stderr with 1 (run failed) or 2 (usage).

use std::process::ExitCode;

use speedbench::cli::{self, Command};
use speedbench::failure::Failure;
use speedbench::{session, table};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("speedbench: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run() -> Result<(), Failure> {
    let argv: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    match cli::parse(std::env::args_os())? {
        Command::Help => print(cli::HELP),
        Command::Version => print(&format!("speedbench {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Run(options) => {
            let document = session::run(&options, &argv)?;
            match options.json {
                true => print(&(document.to_json() + "\n")),
                false => print(&table::render(&document)),
            }
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| {
        Failure::run(format!("cannot write the result to stdout ({error})"), "give it a reader")
    })
}
