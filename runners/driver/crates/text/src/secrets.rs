//! Command lines that are fit to be published: their passwords are redacted.

use crate::words;

/// Replaces a password.
pub const HIDDEN: &str = "***";

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
    fn commands_are_told_without_passwords() {
        for (text, expected) in [
            ("AUTH joe secret", "AUTH *** ***"),
            ("hello 3 auth joe secret SETNAME x", "hello 3 auth *** *** SETNAME x"),
            ("CONFIG SET requirepass secret", "CONFIG SET requirepass ***"),
            ("ACL SETUSER joe on >secret ~*", "ACL SETUSER joe on *** ~*"),
            ("SET auth 'a b'", "SET auth 'a b'"),
        ] {
            assert_eq!(text_without_password(text), expected);
        }
    }
}
