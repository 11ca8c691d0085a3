//! What a phase sends, from its form in a workload file.

use crate::file::written::{CommandFields, PhaseFields, Request, label};
use crate::memcached::suite;
use crate::mode::Mode;
use crate::order::Order;
use crate::protocol_name::ProtocolName;
use crate::source;
use crate::workload::{Item, Workload};
use text::checks::require;
use text::failure::Failure;
use text::words;

/// The counts of a list of commands add up to no more.
const MOST_COMMANDS: u64 = 65_535;

pub fn workload(written: &PhaseFields, protocol: ProtocolName, mode: &Mode) -> Result<Workload, Failure> {
    match (&written.test, &written.commands, &written.sequence) {
        (None, None, None) => mode
            .usual_workload(protocol)
            .ok_or_else(|| Failure::usage("there is nothing to send", "give test, commands or sequence")),
        _ if mode.has_own_commands() => Err(Failure::usage(
            format!("mode {} has its own commands", mode.name()),
            format!("leave test, commands and sequence out, and see the key {}", mode.name()),
        )),
        (Some(name), None, None) => {
            Workload::named(protocol, &name.to_lowercase()).map_err(|failure| failure.within("test"))
        }
        (None, Some(entries), None) => composed(entries, Order::Mix, protocol),
        (None, None, Some(entries)) => composed(entries, Order::Sequence, protocol),
        _ => Err(Failure::usage(
            "more than one of test, commands and sequence is given",
            "give one, and make further phases of the others",
        )),
    }
}

fn composed(entries: &[CommandFields], order: Order, protocol: ProtocolName) -> Result<Workload, Failure> {
    let key = match order {
        Order::Mix | Order::Decks | Order::Scan(_) => "commands",
        Order::Sequence => "sequence",
    };
    require(!entries.is_empty(), &format!("{key} is empty"), "give at least one command")?;
    let counts = entries.iter().enumerate().map(|(at, entry)| {
        let count = count(entry, order).map_err(|failure| failure.within(format!("{key}[{at}]")))?;
        Ok((at, entry, count))
    });
    let counted: Vec<(usize, &CommandFields, u64)> = counts.collect::<Result<_, Failure>>()?;
    let commands: u64 = counted.iter().map(|(.., count)| count).sum();
    require(
        commands <= MOST_COMMANDS,
        &format!("{key} adds up to more than {MOST_COMMANDS} commands"),
        "lower weight or times",
    )?;
    match protocol {
        ProtocolName::Resp => Ok(Workload::of(items(&counted, key, resp_source)?, order)),
        ProtocolName::Memcached => Ok(Workload::of_memcached(items(&counted, key, memcached_test)?, order)),
    }
}

/// How often a command is sent: its weight in a mix, its repeats in a sequence.
fn count(entry: &CommandFields, order: Order) -> Result<u64, Failure> {
    let (count, other, name) = match order {
        Order::Mix | Order::Decks | Order::Scan(_) => (entry.weight, entry.times, "weight"),
        Order::Sequence => (entry.times, entry.weight, "times"),
    };
    require(other.is_none(), "weight is for commands, times is for sequence", &format!("give {name}"))?;
    let count = count.unwrap_or(1);
    let fits = (1..=MOST_COMMANDS).contains(&count);
    require(fits, &format!("{name} cannot be {count}"), &format!("give 1 to {MOST_COMMANDS}"))?;
    Ok(count)
}

fn items<S>(
    counted: &[(usize, &CommandFields, u64)],
    key: &str,
    source: impl Fn(&CommandFields) -> Result<(String, S), Failure>,
) -> Result<Vec<Item<S>>, Failure> {
    let item = |&(at, entry, count): &(usize, &CommandFields, u64)| {
        let (name, source) = source(entry).map_err(|failure| failure.within(format!("{key}[{at}]")))?;
        let name = label(entry.name.as_deref().unwrap_or(&name))
            .map_err(|failure| failure.within(format!("{key}[{at}]")))?;
        Ok(Item { name, source, count })
    };
    counted.iter().map(item).collect()
}

/// A command of RESP with its usual name.
fn resp_source(entry: &CommandFields) -> Result<(String, source::Source), Failure> {
    match (&entry.request, &entry.test) {
        (None, Some(test)) => Ok((test.clone(), source::resp_source(test)?)),
        (Some(request), None) => {
            let words = request_words(request)?;
            let name = String::from_utf8_lossy(&words[0]).to_lowercase();
            Ok((name, source::Source::Request(words)))
        }
        _ => Err(Failure::usage("a command has either request or test", "give one of them")),
    }
}

/// The words of a request; at least one.
pub fn request_words(request: &Request) -> Result<Vec<Vec<u8>>, Failure> {
    let words = match request {
        Request::Words(words) => words.iter().map(|word| word.clone().into_bytes()).collect(),
        Request::Text(text) => words::split(text)
            .ok_or_else(|| Failure::usage(format!("request: quotes do not match in {text}"), "close them"))?,
    };
    require(
        words.first().is_some_and(|name: &Vec<u8>| !name.is_empty()),
        "request: there is no command",
        "begin it with the name of one",
    )?;
    Ok(words)
}

fn memcached_test(entry: &CommandFields) -> Result<(String, &'static suite::Test), Failure> {
    match (&entry.request, &entry.test) {
        (None, Some(test)) => Ok((test.clone(), suite::find_test(test)?)),
        _ => Err(Failure::usage("a command of memcached is a test", "give test = NAME, not request")),
    }
}
