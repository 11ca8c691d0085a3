//! Commands of a file that MONITOR has written, in place of `__monitor_line1__` and `__monitor_line@__`.

use crate::arguments::cannot_be;
use crate::memtier_benchmark::options::Text;
use text::failure::Failure;
use text::words;

const BEGIN: &str = "__monitor_line";
const END: &str = "__";
/// Each command has statistics of its own on each thread, so a file of more is refused.
const MOST: usize = 256;

/// The commands of a file, each as one text.
pub struct Monitored {
    lines: Vec<String>,
}

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Line(usize),
    Any,
}

impl Monitored {
    /// Read `path`; say on stderr how many of its lines are commands.
    pub fn read(path: &str) -> Result<Monitored, Failure> {
        let bytes = std::fs::read(path).map_err(|error| {
            Failure::usage(format!("cannot read {path} ({error})"), "name a MONITOR file")
        })?;
        let text = String::from_utf8_lossy(&bytes);
        let total = text.lines().count();
        let lines: Vec<String> = text.lines().filter_map(command).collect();
        match lines.len() {
            0 => Err(Failure::usage(
                format!("{path} has no command"),
                "give --monitor-input what MONITOR wrote",
            )),
            1..=MOST => {
                eprintln!("Loaded {} monitor commands from {total} total lines", lines.len());
                Ok(Monitored { lines })
            }
            more => Err(Failure::usage(
                format!("{path} has {more} commands, more than {MOST}"),
                "give --monitor-input a part of it",
            )),
        }
    }

    /// `texts` with the commands in their places, one after the other. If they are `random`, a mix in which each line has
    /// its share; else `__monitor_line@__` is the next line each time.
    pub fn fill(&self, texts: &[Text], random: bool) -> Result<Vec<Text>, Failure> {
        let choices = texts.iter().map(|text| choice(&text.text)).collect::<Result<Vec<_>, _>>()?;
        let drawn = texts.iter().zip(&choices).filter(|(_, choice)| **choice == Some(Choice::Any));
        let drawn: u64 = drawn.map(|(text, _)| text.ratio).sum();
        let count = self.lines.len() as u64;
        let decks = if random || drawn == 0 { 1 } else { count / common_divisor(count, drawn) };
        let (mut filled, mut next) = (Vec::new(), 0);
        for _ in 0..decks {
            for (text, choice) in texts.iter().zip(&choices) {
                match choice {
                    None if random => filled.push(text.with(text.text.clone(), text.ratio * count)),
                    None => filled.push(text.clone()),
                    Some(Choice::Line(number)) => {
                        let weight = if random { text.ratio * count } else { text.ratio };
                        filled.push(text.with(self.line(*number)?, weight));
                    }
                    Some(Choice::Any) if random => {
                        filled.extend(self.lines.iter().map(|line| text.with(line.clone(), text.ratio)));
                    }
                    Some(Choice::Any) => {
                        for _ in 0..text.ratio {
                            filled.push(text.with(self.lines[next].clone(), 1));
                            next = (next + 1) % self.lines.len();
                        }
                    }
                }
            }
        }
        match filled.len() {
            0..=MOST => Ok(filled),
            more => Err(Failure::usage(
                format!("the ratios of the commands make {more} of them, more than {MOST}"),
                "give smaller ratios, or --monitor-pattern R",
            )),
        }
    }

    fn line(&self, number: usize) -> Result<String, Failure> {
        let line = number.checked_sub(1).and_then(|at| self.lines.get(at));
        line.cloned().ok_or_else(|| {
            let cause = format!("invalid monitor placeholder: there is no command {number}");
            Failure::usage(cause, format!("give a number from 1 to {}", self.lines.len()))
        })
    }
}

/// The command of a line: what follows the bracket of its database and client, if that is whole.
fn command(line: &str) -> Option<String> {
    let text = line[line.find("] \"")? + 2..].trim();
    words::split(text).filter(|words| !words.is_empty()).map(|_| text.to_owned())
}

/// What `text` stands for, if it is a placeholder.
fn choice(text: &str) -> Result<Option<Choice>, Failure> {
    let Some(rest) = text.trim().strip_prefix(BEGIN) else { return Ok(None) };
    let which = rest.strip_suffix(END).map(|which| (which, which.parse()));
    match which {
        Some(("@", _)) => Ok(Some(Choice::Any)),
        Some((_, Ok(number))) => Ok(Some(Choice::Line(number))),
        _ => Err(cannot_be(
            "--command",
            text,
            "it is an invalid monitor placeholder: write __monitor_line1__ or __monitor_line@__",
        )),
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(texts: &[(&str, u64)], random: bool) -> Vec<(String, u64)> {
        let monitored = Monitored { lines: ["A", "B", "C"].map(str::to_owned).to_vec() };
        let texts: Vec<Text> = texts.iter().map(|(text, ratio)| Text::of(text, *ratio)).collect();
        let filled = monitored.fill(&texts, random).unwrap();
        filled.into_iter().map(|text| (text.text, text.ratio)).collect()
    }

    fn text(pairs: &[(String, u64)]) -> String {
        pairs.iter().map(|(text, ratio)| format!("{text}{ratio} ")).collect()
    }

    #[test]
    fn lines_come_one_after_the_other() {
        assert_eq!(text(&filled(&[("__monitor_line@__", 1)], false)), "A1 B1 C1 ");
        let mixed = filled(&[("__monitor_line2__", 5), ("__monitor_line@__", 2)], false);
        assert_eq!(text(&mixed), "B5 A1 B1 B5 C1 A1 B5 B1 C1 ");
    }

    #[test]
    fn random_lines_keep_the_ratios() {
        let mixed = filled(&[("PING", 5), ("__monitor_line@__", 2)], true);
        assert_eq!(text(&mixed), "PING15 A2 B2 C2 ");
    }

    #[test]
    fn only_whole_lines_and_whole_placeholders_are_taken() {
        assert_eq!(command("1.5 [0 1.2.3.4:5] \"SET\" \"a\" \"b\""), Some("\"SET\" \"a\" \"b\"".to_owned()));
        for line in ["", "OK", "1.5 [0 1.2.3.4:5] ", "1.5 [0 1.2.3.4:5] \"SET\" \"a", "[ proxy ] 1.5"] {
            assert_eq!(command(line), None, "{line}");
        }
        for text in ["__monitor_line1", "__monitor_line1_", "__monitor_line__", "__monitor_line1abc__"] {
            assert!(choice(text).is_err(), "{text}");
        }
        assert_eq!(choice("GET __monitor_line1__").unwrap(), None);
    }
}
