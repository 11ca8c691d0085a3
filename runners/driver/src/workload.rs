//! The tests of `speedbench run`: which commands a name stands for.

use crate::failure::Failure;
use crate::proto::resp;
use crate::template::{Command, Placeholders, Script, Value};

/// What one request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    Ping,
    Set,
    Get,
    Incr,
}

impl Test {
    pub const ALL: [Test; 4] = [Test::Ping, Test::Set, Test::Get, Test::Incr];

    pub fn name(self) -> &'static str {
        match self {
            Test::Ping => "ping",
            Test::Set => "set",
            Test::Get => "get",
            Test::Incr => "incr",
        }
    }

    fn named(name: &str) -> Option<Test> {
        Test::ALL.into_iter().find(|test| test.name() == name)
    }

    fn command(self, value_bytes: usize) -> Command {
        let places = Placeholders { numbers: true, tags: false, value: Value::Drawn(value_bytes) };
        let template = |words: &[&str], reply| resp::template(words, &places, reply);
        match self {
            Test::Ping => template(&["PING"], resp::status("+PONG\r\n")),
            Test::Set => template(&["SET", "key:__rand_int__", "__data__"], resp::status("+OK\r\n")),
            Test::Get => template(&["GET", "key:__rand_int__"], resp::bulk(value_bytes)),
            Test::Incr => template(&["INCR", "counter:__rand_int__"], resp::reply(b':')),
        }
    }
}

/// One test, or several with weights that are mixed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub name: String,
    parts: Vec<(Test, u64)>,
}

impl Workload {
    pub fn all() -> Vec<Workload> {
        Test::ALL.map(Workload::of).to_vec()
    }

    pub fn of(test: Test) -> Workload {
        Workload { name: test.name().to_owned(), parts: vec![(test, 1)] }
    }

    /// `get`, or a mix such as `get:9+set:1`.
    pub fn named(name: &str) -> Result<Workload, Failure> {
        let parts = name.split('+').map(part).collect::<Result<_, _>>()?;
        Ok(Workload { name: name.to_owned(), parts })
    }

    pub fn script(&self, value_bytes: usize, seed: u64) -> Script {
        let weighted = self.parts.iter().map(|(test, weight)| (*weight, test.command(value_bytes)));
        match self.parts.as_slice() {
            [(test, _)] => Script::of(test.command(value_bytes)),
            _ => Script::mix(weighted.collect(), seed),
        }
    }

    /// Whether an empty reply means that the key was not there.
    pub fn reads(&self) -> bool {
        self.parts.iter().all(|(test, _)| *test == Test::Get)
    }
}

/// A test with its weight, which is 1 unless it is given.
fn part(text: &str) -> Result<(Test, u64), Failure> {
    let (name, weight) = text.split_once(':').unwrap_or((text, "1"));
    let test = Test::named(name).ok_or_else(|| {
        let known = Test::ALL.map(Test::name).join(", ");
        Failure::usage(format!("there is no test '{name}'"), format!("-t takes {known}"))
    })?;
    let weight = weight.parse().ok().filter(|weight| (1..=1000).contains(weight)).ok_or_else(|| {
        Failure::usage(
            format!("the weight '{weight}' of {name} is not one"),
            "give 1 to 1000, as in get:9+set:1",
        )
    })?;
    Ok((test, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_the_weights_of_its_name() {
        let mix = Workload::named("get:3+set").unwrap();
        let script = mix.script(3, 1);
        let sets = script.order.iter().filter(|at| **at == 1).count();
        assert_eq!(script.order.len(), 4 * sets);
        assert!(!mix.reads() && Workload::named("get").unwrap().reads());
        assert!(Workload::named("get:0+set").is_err());
    }
}
