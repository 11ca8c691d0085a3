//! Standard output, warnings, and files that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

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

/// The failure of the file at `path`, the value of `option`.
pub fn unwritable(path: &str, option: &str, error: &io::Error) -> Failure {
    Failure::run(format!("cannot write {path} ({error})"), format!("give {option} a place to write to"))
}

/// A file that gets its name when all of it is written: until then it stands beside, and a file of that name is left as it
/// is. What is no regular file (a pipe, a device) is written at once.
pub struct WholeFile {
    file: File,
    path: PathBuf,
    /// Where it stands until it is whole.
    beside: Option<PathBuf>,
}

impl WholeFile {
    /// Begin the file at `path`; an error when it cannot be written.
    pub fn create(path: &str) -> io::Result<WholeFile> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Ok(WholeFile { file: File::options().write(true).open(&path)?, path, beside: None });
        }
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let beside = PathBuf::from(name);
        Ok(WholeFile { file: File::create(&beside)?, path, beside: Some(beside) })
    }

    /// Write all of it, and give it its name.
    pub fn finish(mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        let Some(beside) = &self.beside else { return Ok(()) };
        fs::rename(beside, &self.path)?;
        self.beside = None;
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // What cannot be removed has another name than the result.
            let _ = fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let path = std::env::temp_dir().join(format!("speedbench-whole-{}", std::process::id()));
        let name = path.to_str().unwrap();
        drop(WholeFile::create(name).unwrap());
        assert!(!path.exists());
        WholeFile::create(name).unwrap().finish("first").unwrap();
        drop(WholeFile::create(name).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        WholeFile::create(name).unwrap().finish("second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        fs::remove_file(&path).unwrap();
        WholeFile::create("/dev/null").unwrap().finish("nothing").unwrap();
        assert!(WholeFile::create("/nowhere/at/all").is_err());
    }
}
