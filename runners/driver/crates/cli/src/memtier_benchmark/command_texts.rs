//! The commands that are given as text, each with its ratio and its pattern of keys.

use std::fmt::Display;

use crate::arguments::{Given, cannot_be};
use crate::memtier_benchmark::options::LoadOptions;
use text::failure::Failure;

impl LoadOptions {
    /// The texts of `--command`, each with its ratio and pattern: these are of the command before them.
    pub fn texts(&self, given: &Given) -> Result<Vec<Text>, Failure> {
        let places = given.places("command").into_iter();
        let text = |(at, text): (usize, &String)| Text { at, ..Text::of(text, 1) };
        let mut texts: Vec<Text> = places.zip(&self.command).map(text).collect();
        for (at, ratio) in given.places("command_ratio").into_iter().zip(&self.command_ratio) {
            before(&mut texts, at, "--command-ratio", ratio)?.ratio = *ratio;
        }
        for (at, pattern) in given.places("command_key_pattern").into_iter().zip(&self.command_key_pattern) {
            before(&mut texts, at, "--command-key-pattern", pattern)?.pattern = *pattern;
        }
        Ok(texts)
    }
}

/// A command that was given as text.
#[derive(Clone)]
pub struct Text {
    /// Its place on the command line.
    at: usize,
    pub text: String,
    pub ratio: u64,
    pub pattern: char,
}

impl Text {
    pub fn of(text: &str, ratio: u64) -> Text {
        Text { at: 0, text: text.to_owned(), ratio, pattern: 'R' }
    }

    /// Another command in its place.
    pub fn with(&self, text: String, ratio: u64) -> Text {
        Text { text, ratio, ..self.clone() }
    }
}

/// The last of `texts` before place `at`, at which `option` was given.
fn before<'a>(
    texts: &'a mut [Text],
    at: usize,
    option: &str,
    value: impl Display,
) -> Result<&'a mut Text, Failure> {
    let text = texts.iter_mut().rev().find(|text| text.at < at);
    text.ok_or_else(|| cannot_be(option, &value.to_string(), "give --command before it"))
}
