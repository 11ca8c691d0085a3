//! The words of a command line as options, and the record of them that may be published: passwords are left out where
//! they are read, so every spelling of an option that holds one is covered.

use std::ffi::OsString;

use lexopt::prelude::*;

use crate::endpoint::Words;
use crate::failure::Failure;
use crate::words;

/// Stands where a password was.
pub const HIDDEN: &str = "***";

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

/// A command without the passwords in it.
pub fn without_password(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let capitals = |word: &Vec<u8>| String::from_utf8_lossy(word).to_uppercase();
    let name = words.first().map(capitals).unwrap_or_default();
    let before =
        |at: usize, back: usize| at.checked_sub(back).map(|at| capitals(&words[at])).unwrap_or_default();
    let is_secret = |at: usize| match name.as_str() {
        "AUTH" => at > 0,
        "HELLO" | "MIGRATE" => {
            ["AUTH", "AUTH2"].contains(&before(at, 1).as_str())
                || ["AUTH", "AUTH2"].contains(&before(at, 2).as_str())
        }
        "CONFIG" => ["REQUIREPASS", "MASTERAUTH"].contains(&before(at, 1).as_str()),
        "ACL" => words[at].first().is_some_and(|byte| b"<>#!".contains(byte)),
        _ => false,
    };
    let hidden = |(at, word): (usize, &Vec<u8>)| if is_secret(at) { HIDDEN.into() } else { word.clone() };
    words.iter().enumerate().map(hidden).collect()
}

/// The text of a command without the passwords in it.
pub fn text_without_password(text: &str) -> String {
    match words::split(text).map(|words| (without_password(&words), words)) {
        Some((hidden, words)) if hidden != words => words::join(&hidden),
        _ => text.to_owned(),
    }
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

    #[test]
    fn commands_are_told_without_passwords() {
        for (text, told) in [
            ("AUTH joe secret", "AUTH *** ***"),
            ("hello 3 auth joe secret SETNAME x", "hello 3 auth *** *** SETNAME x"),
            ("CONFIG SET requirepass secret", "CONFIG SET requirepass ***"),
            ("ACL SETUSER joe on >secret ~*", "ACL SETUSER joe on *** ~*"),
            ("SET auth 'a b'", "SET auth 'a b'"),
        ] {
            assert_eq!(text_without_password(text), told);
        }
    }
}
