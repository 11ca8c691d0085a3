//! Values of the options of memtier_benchmark.

use std::str::FromStr;

use crate::arguments::cannot_be;
use crate::run::values::NOT_BINARY;
use crate::values::parsed;
use generator::values::Ttl;
use network::tls;
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

impl Protocol {
    /// Its name, without the two versions of that of Redis.
    pub fn text(self) -> &'static str {
        match self.name {
            ProtocolName::Resp if self.resp3 => "resp3",
            ProtocolName::Resp => "redis",
            ProtocolName::Memcached => "memcache_text",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    OfEachConnection(u64),
    /// One of each connection for each of its keys.
    AllKeys,
}

pub fn protocol(text: &str) -> Result<Protocol, Failure> {
    let resp = |resp3| Ok(Protocol { name: ProtocolName::Resp, resp3 });
    match text {
        "redis" | "resp2" => resp(false),
        "resp3" => resp(true),
        "memcache_text" => Ok(Protocol { name: ProtocolName::Memcached, resp3: false }),
        "memcache_binary" => Err(cannot_be("--protocol", text, NOT_BINARY)),
        _ => Err(cannot_be("--protocol", text, "give redis, resp2, resp3 or memcache_text")),
    }
}

pub fn requests(text: &str) -> Result<Requests, Failure> {
    match text {
        "allkeys" => Ok(Requests::AllKeys),
        _ => parsed("--requests", text).map(Requests::OfEachConnection),
    }
}

/// Two numbers with a colon between them.
pub fn ratio(option: &str, text: &str) -> Result<[u64; 2], Failure> {
    let (a, b) = text.split_once(':').ok_or_else(|| cannot_be(option, text, SEE_HELP))?;
    Ok([parsed(option, a)?, parsed(option, b)?])
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

/// One number, as a range of it alone.
pub fn one_of_range(option: &str, text: &str) -> Result<u64, Failure> {
    let (least, most): (u64, u64) = match text.contains('-') {
        true => range(option, text)?,
        false => (parsed(option, text)?, parsed(option, text)?),
    };
    match least == most {
        true => Ok(least),
        false => Err(cannot_be(option, text, "nothing is drawn from it here: give both ends the same")),
    }
}

/// A letter of a key pattern.
pub fn letter(option: &str, text: &str) -> Result<char, Failure> {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) if "RSGZP".contains(letter) => Ok(letter),
        _ => Err(cannot_be(option, text, "give R, S, G, Z or P")),
    }
}

/// The letters of sets and of gets; one letter is for both.
pub fn pattern(text: &str) -> Result<[char; 2], Failure> {
    const OPTION: &str = "--key-pattern";
    let (set, get) = text.split_once(':').unwrap_or((text, text));
    match (letter(OPTION, set), letter(OPTION, get)) {
        (Ok(set), Ok(get)) => Ok([set, get]),
        _ => Err(cannot_be(OPTION, text, "give two of R, S, G, Z and P, as in S:R")),
    }
}

/// Percentiles, separated by commas.
pub fn percentiles(text: &str) -> Result<Vec<f64>, Failure> {
    let percentile = |text: &str| text.trim().parse().ok().filter(|it| (0.0..=100.0).contains(it));
    let percentiles: Option<Vec<f64>> = text.split(',').map(percentile).collect();
    percentiles.ok_or_else(|| cannot_be("--print-percentiles", text, "give percentiles, as in 50,99,99.9"))
}

/// Whether each command line has a row of its own, and not each command.
pub fn breakdown(text: &str) -> Result<bool, Failure> {
    match text {
        "command" => Ok(false),
        "line" => Ok(true),
        _ => Err(cannot_be("--command-stats-breakdown", text, "give command or line")),
    }
}

/// Whether lines of a MONITOR file come in random order.
pub fn monitor_pattern(text: &str) -> Result<bool, Failure> {
    match text {
        "S" => Ok(false),
        "R" => Ok(true),
        _ => Err(cannot_be("--monitor-pattern", text, "give S or R")),
    }
}

/// Whether the sizes of a range rise with the number of the key.
pub fn size_pattern(text: &str) -> Result<bool, Failure> {
    match text {
        "R" => Ok(false),
        "S" => Ok(true),
        _ => Err(cannot_be("--data-size-pattern", text, "give R or S")),
    }
}

/// The only version of TLS, if there is one, of those that OpenSSL's names in `text` allow.
pub fn tls_protocols(text: &str) -> Result<TlsProtocols, Failure> {
    const OPTION: &str = "--tls-protocols";
    let names = text.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_ascii_lowercase).collect();
    let known = ["tlsv1", "tlsv1.1", "tlsv1.2", "tlsv1.3"];
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(cannot_be(OPTION, unknown, "give TLSv1.2 and TLSv1.3, or one of them"));
    }
    let has = |name: &str| names.iter().any(|it| it == name);
    match (has("tlsv1.2"), has("tlsv1.3")) {
        (true, true) => Ok(TlsProtocols(None)),
        (true, false) => Ok(TlsProtocols(Some(tls::Version::Tls12))),
        (false, true) => Ok(TlsProtocols(Some(tls::Version::Tls13))),
        (false, false) => Err(cannot_be(OPTION, text, "only TLSv1.2 and TLSv1.3 are spoken here")),
    }
}

/// The version of TLS to use; none: 1.2 and 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsProtocols(pub Option<tls::Version>);
