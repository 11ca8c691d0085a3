//! Standard output, and warnings.

use std::io::{IsTerminal, Write};

use crate::failure::Failure;

/// Write to stdout at once.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        Failure::run(format!("cannot write the result to stdout ({error})"), "give it a reader")
    })
}

/// Warn the person at the terminal, if there is one: scripts take a word on stderr for a failure, as Tcl's exec does.
pub fn warn(text: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("WARNING: {text}");
    }
}
