//! Values of the options of memtier_benchmark.

use std::str::FromStr;

use crate::arguments::cannot_be;
use crate::values::parsed;
use generator::values::Ttl;
use text::checks::require;
use text::failure::Failure;
use workload::protocol_name::ProtocolName;

const SEE_HELP: &str = "see --help";

/// The protocol of the server, and whether connections speak its third version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    pub name: ProtocolName,
    pub resp3: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    OfEachConnection(u64),
    /// One for each key, of all connections together.
    AllKeys,
}

pub fn protocol(text: &str) -> Result<Protocol, Failure> {
    let resp = |resp3| Ok(Protocol { name: ProtocolName::Resp, resp3 });
    match text {
        "redis" | "resp2" => resp(false),
        "resp3" => resp(true),
        "memcache_text" => Ok(Protocol { name: ProtocolName::Memcached, resp3: false }),
        _ => Err(cannot_be("--protocol", text, "give redis, resp2, resp3 or memcache_text")),
    }
}

pub fn requests(text: &str) -> Result<Requests, Failure> {
    match text {
        "allkeys" => Ok(Requests::AllKeys),
        _ => parsed("--requests", text).map(Requests::OfEachConnection),
    }
}

pub fn ratio(text: &str) -> Result<[u64; 2], Failure> {
    let (sets, gets) = text.split_once(':').ok_or_else(|| cannot_be("--ratio", text, SEE_HELP))?;
    Ok([parsed("--ratio", sets)?, parsed("--ratio", gets)?])
}

/// Two numbers with a dash between them, the lesser first.
pub fn range<T: FromStr + PartialOrd>(option: &str, text: &str) -> Result<(T, T), Failure> {
    let refused = || cannot_be(option, text, SEE_HELP);
    let (least, most) = text.split_once('-').ok_or_else(refused)?;
    let (least, most) = (parsed(option, least)?, parsed(option, most)?);
    if least <= most { Ok((least, most)) } else { Err(refused()) }
}

pub fn data_size_list(text: &str) -> Result<Vec<(usize, u64)>, Failure> {
    const OPTION: &str = "--data-size-list";
    let pair = |pair: &str| {
        let (bytes, weight) = pair.split_once(':').ok_or_else(|| cannot_be(OPTION, text, SEE_HELP))?;
        let weight = parsed(OPTION, weight)?;
        require(weight > 0, "--data-size-list has a weight of 0", "leave it out")?;
        Ok((parsed(OPTION, bytes)?, weight))
    };
    text.split(',').map(pair).collect()
}

pub fn expiry_range(text: &str) -> Result<Ttl, Failure> {
    let (least, most) = range("--expiry-range", text)?;
    require(least > 0, "--expiry-range begins with 0", "give seconds above 0")?;
    Ok(Ttl(least, most))
}

/// One letter, or the same for sets and gets.
pub fn pattern(option: &str, text: &str) -> Result<char, Failure> {
    let letters: Vec<&str> = text.split(':').collect();
    let letter =
        letters[0].chars().next().filter(|letter| letters[0].len() == 1 && "RSGZP".contains(*letter));
    require(
        letters.iter().all(|other| *other == letters[0]),
        &format!("{option} {text} has two patterns"),
        "give both the same, or two runs",
    )?;
    letter.ok_or_else(|| cannot_be(option, text, SEE_HELP))
}
