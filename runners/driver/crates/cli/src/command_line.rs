//! The words of a command line as options, and the record of them that may be published: passwords are left out where
//! they are read, so every spelling of an option that holds one is covered.

use lexopt::prelude::*;
use std::ffi::OsString;
use text::secrets::HIDDEN;

use crate::option_values::Words;
use text::failure::Failure;

pub struct CommandLine {
    parser: lexopt::Parser,
    /// What was read so far, in its usual spelling: each value is a word of its own.
    record: Vec<String>,
}

impl CommandLine {
    /// The words that follow `program`, the words that name it.
    pub fn new(program: &[String], words: impl IntoIterator<Item = OsString>) -> CommandLine {
        CommandLine { parser: lexopt::Parser::from_args(words), record: program.to_vec() }
    }

    /// The next option, as `-a` or `--name`; none behind the last.
    pub fn option(&mut self) -> Result<Option<String>, Failure> {
        let option = match self.parser.next().map_err(|error| bad_words(&error))? {
            None => return Ok(None),
            Some(Short(letter)) => format!("-{letter}"),
            Some(Long(name)) => format!("--{name}"),
            Some(value) => return Err(bad_words(&value.unexpected())),
        };
        self.record.push(option.clone());
        Ok(Some(option))
    }

    /// The value of the last option, if one sticks to it: `--name=value`.
    pub fn optional(&mut self) -> Option<String> {
        let value = self.parser.optional_value()?.to_string_lossy().into_owned();
        if let Some(option) = self.record.last_mut() {
            *option += &format!("={value}");
        }
        Some(value)
    }

    /// The words as they may be published.
    pub fn record(self) -> Vec<String> {
        self.record
    }
}

fn bad_words(error: &lexopt::Error) -> Failure {
    Failure::usage(error, CommandLine::SEE)
}

impl Words for CommandLine {
    const SEE: &'static str = "see --help";

    fn secret(&mut self, _option: &str, publish: fn(&str) -> String) -> Result<String, Failure> {
        let text = self.parser.value().map_err(|error| bad_words(&error))?.to_string_lossy().into_owned();
        self.record.push(publish(&text));
        Ok(text)
    }
}

/// A word that is no option, for a message: what may be a value that sticks to an option is left out.
pub fn shown(word: &str) -> String {
    let end = match word.strip_prefix("--") {
        Some(_) => word.find('=').map(|at| at + 1),
        None => word.starts_with('-').then(|| word.char_indices().nth(2).map(|(at, _)| at)).flatten(),
    };
    end.map_or(word.to_owned(), |end| format!("{}{HIDDEN}", &word[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_options_are_shown_without_their_values() {
        for (word, told) in [
            ("-asecret", "-a***"),
            ("-3asecret", "-3***"),
            ("-a", "-a"),
            ("--authenticate=secret", "--authenticate=***"),
            ("--cluster", "--cluster"),
            ("get", "get"),
            ("-é", "-é"),
        ] {
            assert_eq!(shown(word), told);
        }
    }
}
