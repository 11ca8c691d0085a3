//! The tests of `speedbench run`: which commands a name stands for.

use crate::crew::{self, Outcome};
use crate::failure::Failure;
use crate::job::Job;
use crate::memcached::Load;
use crate::memcached::suite::{self, Needs};
use crate::proto::resp::{self, Resp};
use crate::stage::Stage;
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

/// The protocol that the server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Resp,
    Memcached,
}

impl Protocol {
    pub const ALL: [Protocol; 2] = [Protocol::Resp, Protocol::Memcached];

    pub fn name(self) -> &'static str {
        match self {
            Protocol::Resp => "resp",
            Protocol::Memcached => "memcached",
        }
    }

    /// The port on which servers of the protocol usually are.
    pub fn port(self) -> u16 {
        match self {
            Protocol::Resp => 6379,
            Protocol::Memcached => 11211,
        }
    }
}

/// One test, or several with weights that are mixed.
#[derive(Debug, Clone)]
pub struct Workload {
    pub name: String,
    parts: Parts,
}

#[derive(Debug, Clone)]
enum Parts {
    Resp(Vec<(Test, u64)>),
    Memcached(Vec<(&'static suite::Test, u64)>),
}

/// What a workload sends, in the protocol of its server.
pub enum Speech {
    Resp(Script),
    Memcached(Load),
}

impl Speech {
    pub fn script(&self) -> &Script {
        match self {
            Speech::Resp(script) => script,
            Speech::Memcached(load) => &load.script,
        }
    }

    pub fn run(&self, job: &Job, stages: &[Stage]) -> Result<Outcome, Failure> {
        match self {
            Speech::Resp(_) => crew::run(&Resp, job, stages, &mut |_| ()),
            Speech::Memcached(load) => load.run(job, stages, &mut |_| ()),
        }
    }
}

impl Workload {
    /// The tests that run when none is named.
    pub fn all(protocol: Protocol) -> Vec<Workload> {
        match protocol {
            Protocol::Resp => Test::ALL.map(Workload::of).to_vec(),
            Protocol::Memcached => suite::usual().map(Workload::of_memcached).collect(),
        }
    }

    pub fn of(test: Test) -> Workload {
        Workload { name: test.name().to_owned(), parts: Parts::Resp(vec![(test, 1)]) }
    }

    fn of_memcached(test: &'static suite::Test) -> Workload {
        Workload { name: test.name.to_owned(), parts: Parts::Memcached(vec![(test, 1)]) }
    }

    /// `get`, or a mix such as `get:9+set:1`.
    pub fn named(protocol: Protocol, name: &str) -> Result<Workload, Failure> {
        let parts = match protocol {
            Protocol::Resp => Parts::Resp(parts(name, resp_test)?),
            Protocol::Memcached => Parts::Memcached(parts(name, suite::asked)?),
        };
        Ok(Workload { name: name.to_owned(), parts })
    }

    pub fn speech(&self, value_bytes: usize, seed: u64) -> Speech {
        match &self.parts {
            Parts::Resp(parts) => Speech::Resp(resp_script(parts, value_bytes, seed)),
            Parts::Memcached(parts) => Speech::Memcached(Load::new(parts, &Value::Drawn(value_bytes), seed)),
        }
    }

    /// Whether an empty reply means that the key was not there.
    pub fn reads(&self) -> bool {
        match &self.parts {
            Parts::Resp(parts) => parts.iter().all(|(test, _)| *test == Test::Get),
            Parts::Memcached(_) => false,
        }
    }

    /// Keys that the tests need and a prefill does not set.
    pub fn needs(&self) -> Vec<Needs> {
        match &self.parts {
            Parts::Resp(_) => Vec::new(),
            Parts::Memcached(parts) => {
                let needs = parts.iter().map(|(test, _)| test.needs);
                needs.filter(|needs| !matches!(needs, Needs::Nothing | Needs::Keys)).collect()
            }
        }
    }
}

fn resp_script(parts: &[(Test, u64)], value_bytes: usize, seed: u64) -> Script {
    let weighted = parts.iter().map(|(test, weight)| (*weight, test.command(value_bytes)));
    match parts {
        [(test, _)] => Script::of(test.command(value_bytes)),
        _ => Script::mix(weighted.collect(), seed),
    }
}

fn resp_test(name: &str) -> Result<Test, Failure> {
    Test::named(name).ok_or_else(|| {
        let known = Test::ALL.map(Test::name).join(", ");
        Failure::usage(format!("there is no test '{name}'"), format!("-t takes {known}"))
    })
}

/// Tests, each with its weight, which is 1 unless it is given.
fn parts<T>(text: &str, test: impl Fn(&str) -> Result<T, Failure>) -> Result<Vec<(T, u64)>, Failure> {
    let part = |text: &str| {
        let (name, weight) = text.split_once(':').unwrap_or((text, "1"));
        Ok((test(name)?, self::weight(name, weight)?))
    };
    text.split('+').map(part).collect()
}

fn weight(name: &str, weight: &str) -> Result<u64, Failure> {
    weight.parse().ok().filter(|weight| (1..=1000).contains(weight)).ok_or_else(|| {
        Failure::usage(
            format!("the weight '{weight}' of {name} is not one"),
            "give 1 to 1000, as in get:9+set:1",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_have_tests_of_their_own() {
        assert!(Workload::named(Protocol::Memcached, "gets_10:3+ms").is_ok());
        assert!(Workload::named(Protocol::Resp, "gets_10").is_err());
        let incr = Workload::named(Protocol::Memcached, "incr:2+get").unwrap();
        assert_eq!(incr.needs(), [Needs::Counters]);
    }

    #[test]
    fn a_mix_has_the_weights_of_its_name() {
        let mix = Workload::named(Protocol::Resp, "get:3+set").unwrap();
        let script = mix.speech(3, 1).script().clone();
        let sets = script.order.iter().filter(|at| **at == 1).count();
        assert_eq!(script.order.len(), 4 * sets);
        assert!(!mix.reads() && Workload::named(Protocol::Resp, "get").unwrap().reads());
        assert!(Workload::named(Protocol::Resp, "get:0+set").is_err());
    }
}
