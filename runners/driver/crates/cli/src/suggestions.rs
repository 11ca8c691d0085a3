//! What a word that no command line knows was probably meant to be.

use clap::{Arg, Command};

/// A word that people write here because other programs have it, and what to write instead.
pub type Habit = (&'static str, &'static str);

/// The remedy of the unknown option `word`: what `habits` say of it, or the most similar option of `command`.
pub fn remedy(command: &Command, habits: &[Habit], word: &str) -> Option<String> {
    let habit = habits.iter().find(|(habit, _)| *habit == word).map(|(_, remedy)| (*remedy).to_owned());
    habit.or_else(|| {
        let options = command.get_arguments().filter(|arg| arg.get_long().is_some()).map(spelling);
        nearest(word, options).map(|option| format!("did you mean {option}?"))
    })
}

/// How `arg` is written in messages: `-c`, or `--rate`.
pub fn spelling(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => arg.get_id().to_string(),
    }
}

/// The one of `names` that `word` most resembles; none when it resembles none.
pub fn nearest<S: AsRef<str>>(word: &str, names: impl IntoIterator<Item = S>) -> Option<S> {
    let letters = word.trim_start_matches('-').chars().count();
    let distances = names.into_iter().map(|name| {
        let begins = letters >= 3 && name.as_ref().starts_with(word);
        (if begins { 0 } else { distance(word, name.as_ref()) }, name)
    });
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= letters / 3).then_some(name)
}

/// How many letters must be put in, taken out or replaced to make `b` of `a` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_letters() {
        for (a, b, letters) in
            [("", "abc", 3), ("rate", "rate", 0), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (letters, letters), "{a} {b}");
        }
    }

    #[test]
    fn only_what_resembles_a_name_is_taken_for_it() {
        let names = ["--duration", "--rate", "--search"];
        for (word, expected) in [
            ("--duraton", Some("--duration")),
            ("--dur", Some("--duration")),
            ("--rat", Some("--rate")),
            ("--output", None),
            ("-x", None),
            ("--é", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
    }
}
