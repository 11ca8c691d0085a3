//! What the command lines have in common: clap has the grammar, and failures are of one line.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::suggestions::{self, Habit, spelling};
use text::failure::Failure;
use text::secrets::HIDDEN;

/// A command line as it was read: options, or a text that answers it.
pub enum Parsed<O> {
    Options(O, Box<Given>),
    Text(String),
}

/// The options that were given, with their places.
pub struct Given {
    command: Command,
    pub matches: ArgMatches,
}

/// The command line of `program`, which does what `about` says, with the options `O`; `-h` stays free for the host.
pub fn command<O: Args>(program: &'static str, about: Option<&'static str>) -> Command {
    let help = Arg::new("help").long("help").action(ArgAction::Help).help("print this");
    let version = Arg::new("version").long("version").action(ArgAction::Version).help("print the version");
    O::augment_args(Command::new(program))
        .about(about)
        .bin_name(program)
        .display_name(program.split(' ').next().unwrap_or(program))
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .mut_args(lenient)
        .next_help_heading("Other")
        .args([help, version])
}

/// Let the value of an option begin with a dash, unless the option takes several.
fn lenient(arg: Arg) -> Arg {
    let takes_one = arg.get_num_args().is_none_or(|count| count.max_values() == 1);
    let takes_value = arg.get_action().takes_values() && takes_one && !arg.is_positional();
    if takes_value { arg.allow_hyphen_values(true) } else { arg }
}

/// What usage failures recommend.
#[derive(Clone, Copy)]
pub struct Advice<'a> {
    /// Where to find more.
    pub see: &'a str,
    /// Options of other programs.
    pub habits: &'a [Habit],
    /// What to do about a word that is no option.
    pub word: Option<&'a str>,
}

impl Advice<'_> {
    /// Only where to find more.
    pub const fn see(see: &str) -> Advice<'_> {
        Advice { see, habits: &[], word: None }
    }

    /// The remedy for a word that is no option or argument of `command`.
    fn unknown(&self, command: &Command, word: &str) -> String {
        let remedy = match (word.starts_with('-'), self.word) {
            (false, Some(remedy)) => Some(remedy.to_owned()),
            _ => suggestions::remedy(command, self.habits, word),
        };
        remedy.unwrap_or_else(|| self.see.to_owned())
    }
}

/// Whether `words` ask for the help: `-h` without a host behind it.
pub fn ask_for_help(words: &[OsString]) -> bool {
    words.len() == 1 && words[0] == "-h"
}

/// Read `words`, which follow the program's name. Usage failures have the remedies of `advice`.
pub fn parse<O: FromArgMatches>(
    mut command: Command,
    words: impl IntoIterator<Item = OsString>,
    advice: Advice<'_>,
) -> Result<Parsed<O>, Failure> {
    let words: Vec<OsString> = words.into_iter().collect();
    if ask_for_help(&words) {
        return Ok(Parsed::Text(command.render_help().to_string()));
    }
    let words = [OsString::new()].into_iter().chain(words);
    match command.try_get_matches_from_mut(words) {
        Ok(matches) => {
            let options = O::from_arg_matches(&matches).map_err(|error| failure(&error, &command, advice))?;
            Ok(Parsed::Options(options, Box::new(Given { command, matches })))
        }
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Ok(Parsed::Text(error.render().to_string()))
        }
        Err(error) => Err(failure(&error, &command, advice)),
    }
}

/// A usage failure of one line, without values that may be passwords.
fn failure(error: &clap::Error, command: &Command, advice: Advice<'_>) -> Failure {
    if let Some(failure) = error.source().and_then(|source| source.downcast_ref::<Failure>()) {
        return failure.clone();
    }
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let option = context(ContextKind::InvalidArg).split(' ').next().unwrap_or_default();
    let value = context(ContextKind::InvalidValue);
    let cause = match error.kind() {
        ErrorKind::UnknownArgument => {
            let remedy = advice.unknown(command, option.split('=').next().unwrap_or(option));
            return Failure::usage(format!("invalid option '{}'", without_value(option)), remedy);
        }
        ErrorKind::TooManyValues => format!("{option} takes no value"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if !value.is_empty() => {
            format!("{option} cannot be '{value}'")
        }
        _ => format!("{option} lacks its value"),
    };
    Failure::usage(cause, advice.see)
}

/// The failure of a value that `option` cannot have.
pub fn cannot_be(option: &str, value: &str, remedy: &str) -> Failure {
    Failure::usage(format!("{option} cannot be '{value}'"), remedy)
}

/// An unknown word, for a message: a value that is attached to an option is left out.
pub fn without_value(word: &str) -> String {
    let end = match word.strip_prefix("--") {
        Some(_) => word.find('=').map(|at| at + 1),
        None => word.starts_with('-').then(|| word.char_indices().nth(2).map(|(at, _)| at)).flatten(),
    };
    end.map_or(word.to_owned(), |end| format!("{}{HIDDEN}", &word[..end]))
}

impl Given {
    /// Whether `arg` was given.
    pub fn has(&self, arg: &Arg) -> bool {
        self.has_id(arg.get_id().as_str())
    }

    /// Whether the option `id` was given.
    pub fn has_id(&self, id: &str) -> bool {
        self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    /// Whether the option `id` was given.
    pub fn was_given(&self, id: &str) -> bool {
        self.command.get_arguments().any(|arg| arg.get_id() == id && self.has(arg))
    }

    /// How the option `id` is written in messages.
    pub fn spelling_of(&self, id: &str) -> String {
        self.command.get_arguments().find(|arg| arg.get_id() == id).map_or(id.to_owned(), spelling)
    }

    /// The places at which the option `id` was given, in order.
    pub fn places(&self, id: &str) -> Vec<usize> {
        self.matches.indices_of(id).into_iter().flatten().collect()
    }

    /// The first of the options `O` that was given.
    pub fn first_of<O: Args>(&self) -> Option<String> {
        let command = O::augment_args(Command::new(""));
        command.get_arguments().find(|arg| self.has(arg)).map(spelling)
    }

    /// The words of the command line as they may be published: of the value of an option, `publish` makes the word.
    pub fn record(&self, program: &[String], publish: fn(&str, &str) -> String) -> Vec<String> {
        let mut words: Vec<(usize, Vec<String>)> = Vec::new();
        for arg in self.command.get_arguments().filter(|arg| self.has(arg)) {
            let id = arg.get_id().as_str();
            let places = self.places(id);
            if !arg.get_action().takes_values() {
                words.extend(places.first().map(|place| (*place, vec![spelling(arg)])));
                continue;
            }
            let values = self.matches.get_raw(id).into_iter().flatten();
            for (place, value) in places.into_iter().zip(values) {
                let value = publish(id, &value.to_string_lossy());
                words.push((place, written(arg, value)));
            }
        }
        words.sort();
        program.iter().cloned().chain(words.into_iter().flat_map(|(_, words)| words)).collect()
    }
}

/// An option with its value: two words, unless the value may be left out.
fn written(arg: &Arg, value: String) -> Vec<String> {
    match (arg.is_require_equals_set(), value.is_empty()) {
        (true, true) => vec![spelling(arg)],
        (true, false) => vec![format!("{}={value}", spelling(arg))],
        (false, _) => vec![spelling(arg), value],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_shown_without_their_values() {
        for (word, expected) in [
            ("-asecret", "-a***"),
            ("-3asecret", "-3***"),
            ("-a", "-a"),
            ("--authenticate=secret", "--authenticate=***"),
            ("--cluster", "--cluster"),
            ("get", "get"),
            ("-é", "-é"),
        ] {
            assert_eq!(without_value(word), expected);
        }
    }
}
