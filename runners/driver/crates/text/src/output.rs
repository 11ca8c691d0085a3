//! Standard output.

use std::io::Write;

use crate::failure::Failure;

/// Write to stdout at once.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        Failure::run(format!("cannot write the result to stdout ({error})"), "give it a reader")
    })
}
