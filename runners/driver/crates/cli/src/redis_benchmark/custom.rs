//! Custom commands: quoted binary words, sequences with `;`, and repeat counts.

use crate::redis_benchmark::options::Options;
use crate::redis_benchmark::planned::{PlannedTest, placeholders};
use protocol::command::Command;
use protocol::expectation::Expectation;
use protocol::resp;
use protocol::script::Script;
use text::failure::Failure;
use text::secrets::without_password;
use text::words::escape;

/// The words of the command line as one test.
pub fn plan(options: &Options) -> Result<PlannedTest, Failure> {
    // What came from stdin is not part of the title.
    let title_words = &options.command[..options.command.len() - usize::from(options.tests.stdin)];
    let title_words: Vec<_> = title_words.split(|word| word == b";").map(without_password).collect();
    let title_words = title_words.join(&b";".to_vec());
    let title: Vec<String> =
        title_words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let steps: Vec<&[Vec<u8>]> = match is_literal(&options.command) {
        true => vec![&options.command],
        false => options.command.split(|word| word == b";").collect(),
    };
    let counted = options.is_valkey || steps.len() > 1;
    let steps = steps.into_iter().filter(|words| !words.is_empty());
    let steps: Vec<(usize, Command)> =
        steps.map(|words| step(words, counted, options)).collect::<Result<_, _>>()?;
    let requests = steps.iter().try_fold(0usize, |sum, (times, _)| sum.checked_add(*times));
    if !requests.is_some_and(|requests| (1..=usize::from(u16::MAX)).contains(&requests)) {
        return Err(Failure::usage("the sequence has no or too many commands", "give 1 to 65535 of them"));
    }
    let script = Script::sequence(steps);
    Ok(PlannedTest { title: title.join(" "), payload_bytes: script.unit_bytes(), script, before: None })
}

/// Whether the `;` of `words` is but their last word: there is no sequence of one command.
fn is_literal(words: &[Vec<u8>]) -> bool {
    let separators = words.iter().filter(|word| *word == b";").count();
    separators == 1 && words.len() > 1 && words.last().is_some_and(|word| word == b";")
}

/// One command of a sequence; it may begin with how often it is sent.
fn step(words: &[Vec<u8>], counted: bool, options: &Options) -> Result<(usize, Command), Failure> {
    let count = std::str::from_utf8(&words[0]).ok().and_then(|word| word.parse::<usize>().ok());
    let (times, words) = match count {
        Some(times) if counted => (times, &words[1..]),
        _ => (1, words),
    };
    if words.is_empty() || times == 0 {
        return Err(Failure::usage(
            "a repeat count repeats nothing",
            "write a count above 0 and its command",
        ));
    }
    let words: Vec<Vec<u8>> = words.iter().map(|word| unquoted(word)).collect::<Result<_, _>>()?;
    let expectation = Expectation::to(&words, options.load.value_bytes);
    Ok((times, resp::template(&words, &placeholders(options), expectation)))
}

/// A word in double quotes without them, and with its escapes (`\xHH \n \r \t \a \b`, else the character) replaced.
fn unquoted(word: &[u8]) -> Result<Vec<u8>, Failure> {
    let Some(inner) = word.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return Ok(word.to_vec());
    };
    let mut bytes = Vec::new();
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        let (taken, left) = match byte {
            b'\\' => escape(after).ok_or_else(|| wrong_quotes(word))?,
            b'"' => return Err(wrong_quotes(word)),
            _ => (byte, after),
        };
        bytes.push(taken);
        rest = left;
    }
    Ok(bytes)
}

fn wrong_quotes(word: &[u8]) -> Failure {
    Failure::usage(
        format!("Invalid quoted string {}", String::from_utf8_lossy(word)),
        "escape \" and \\ inside of quotes with a backslash",
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::arguments::Parsed;
    use crate::redis_benchmark::{command, options};

    fn planned(words: &[&str]) -> Result<PlannedTest, Failure> {
        planned_by(false, words)
    }

    fn planned_by(is_valkey: bool, words: &[&str]) -> Result<PlannedTest, Failure> {
        let words = ["-r", "10", "--"].iter().chain(words).map(OsString::from);
        match options::parse(command("redis-benchmark"), words.collect())? {
            Parsed::Options(options, _) => plan(&Options { is_valkey, ..options }),
            Parsed::Text(text) => panic!("{text}"),
        }
    }

    #[test]
    fn quotes_hold_bytes() {
        assert_eq!(unquoted(br#""a\x00\xffb\n\"\\""#).unwrap(), b"a\x00\xffb\n\"\\");
        assert_eq!(unquoted(b"plain\\n\"").unwrap(), b"plain\\n\"");
        assert!(unquoted(br#""a"b""#).is_err());
        assert!(unquoted(br#""a\""#).is_err());
    }

    #[test]
    fn sequences_have_counts() {
        let plan = planned(&["multi", ";", "3", "incr", "a:__rand_int__", ";", "exec"]).unwrap();
        assert_eq!(plan.title, "multi ; 3 incr a:__rand_int__ ; exec");
        assert_eq!(plan.script.order.commands(), [0, 1, 1, 1, 2]);
        assert_eq!(plan.script.numbers_per_unit(0), 3);
        assert!(planned(&[";"]).is_err());
        let alone = planned(&["set", "k", ";"]).unwrap();
        assert_eq!(alone.script.commands[0].fixed.bytes, b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$1\r\n;\r\n");
        assert_eq!(planned(&["set", "k", "v", ";", "get", "k"]).unwrap().script.commands.len(), 2);
        assert!(planned(&["2", ";", "ping"]).is_err());
    }

    #[test]
    fn one_command_has_a_count_in_valkey_benchmark() {
        let orders = [false, true].map(|is_valkey| {
            planned_by(is_valkey, &["3", "set", "k", "v"]).unwrap().script.order.commands().len()
        });
        assert_eq!(orders, [1, 3]);
    }
}
