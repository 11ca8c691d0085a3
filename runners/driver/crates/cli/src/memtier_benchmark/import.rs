//! `--data-import`: items of a file are set and got, and may be compared with what the server holds in the end.

use std::sync::Arc;

use clap::Args;

use crate::memtier_benchmark::options::Options;
use crate::memtier_benchmark::values::Requests;
use generator::dump::Dump;
use generator::items::{Expiry, Items};
use network::channel::Channel;
use network::target::Target;
use protocol::reply::Reply;
use protocol::resp;
use text::failure::Failure;
use workload::protocol_name::ProtocolName;

#[derive(Debug, Args)]
#[command(next_help_heading = "Items of a file")]
pub struct ImportOptions {
    /// set the items of this file, which is as a dump of memcached is
    #[arg(long = "data-import", value_name = "FILE")]
    pub file: Option<String>,
    /// compare them with what the server holds in the end
    #[arg(long = "data-verify")]
    verify: bool,
    /// only compare them
    #[arg(long)]
    pub verify_only: bool,
    /// with keys of --key-prefix and a number
    #[arg(long)]
    pub generate_keys: bool,
    /// let them live for ever
    #[arg(long)]
    pub no_expiry: bool,
}

/// How many items the server holds as the file has them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Verification {
    pub verified: u64,
    pub failed: u64,
}

impl ImportOptions {
    pub fn verifies(&self) -> bool {
        self.verify || self.verify_only
    }

    /// Whether the keys are those of the items.
    pub fn has_own_keys(&self) -> bool {
        self.file.is_some() && !self.generate_keys
    }

    /// Usage failures; `is` tells whether the option of an id was given.
    pub fn check(&self, options: &Options, is: &dyn Fn(&str) -> bool) -> Result<(), Failure> {
        let (server, is_sequential) = (&options.server, options.data.key_pattern[0] == 'S');
        let excluded: &[(bool, &str)] = match self.file.is_some() {
            false => &[
                (self.verifies(), "--data-verify or --verify-only is given without --data-import"),
                (self.no_expiry, "--no-expiry is given without --data-import"),
                (self.generate_keys, "--generate-keys is given without --data-import"),
            ],
            true => &[
                (server.cluster, "--data-import is given with --cluster-mode"),
                (server.protocol.name != ProtocolName::Resp, "--data-import is given for memcache_text"),
                (is("command"), "--data-import is given beside --command"),
                (is("wait_ratio"), "--data-import is given beside --wait-ratio"),
                (
                    is("data_size") || is("data_size_range") || is("data_size_list"),
                    "--data-import is given beside the size of values",
                ),
                (is("random_data"), "--data-import is given beside --random-data"),
                (
                    !self.generate_keys && (is("prefix") || is("first_key") || is("last_key")),
                    "--key-prefix, --key-minimum or --key-maximum is given without --generate-keys",
                ),
                (
                    self.generate_keys && self.verifies() && !is_sequential,
                    "--data-verify is given with --generate-keys and without --key-pattern S:S",
                ),
            ],
        };
        let excluded = excluded.iter().find(|(excluded, _)| *excluded);
        excluded.map_or(Ok(()), |(_, cause)| Err(Failure::usage(*cause, "leave it out")))
    }

    /// The items, after the whole file was read once.
    pub fn items(&self, options: &Options) -> Result<Option<Items>, Failure> {
        let Some(path) = &self.file else { return Ok(None) };
        let dump = Dump::open(path).map_err(|error| {
            let remedy = "give --data-import a file that begins with 'dumpflags, time, exptime', whole";
            Failure::usage(format!("{path}: {error}"), remedy)
        })?;
        if !self.generate_keys {
            eprintln!("Reading keys from {path}... {} keys read.", dump.count());
        }
        let expiry = match (self.no_expiry, options.data.ttl) {
            (true, _) => Expiry::Never,
            (false, Some(ttl)) => Expiry::Drawn(ttl),
            (false, None) => Expiry::OfItem,
        };
        Ok(Some(Items { dump: Arc::new(dump), expiry, prefix: self.generate_keys.then(|| options.prefix()) }))
    }
}

/// Get each item that one connection has set, and compare it.
pub fn verify(options: &Options, target: &Target, items: &Items) -> Result<Verification, Failure> {
    let mut channel = target.connect()?;
    let (mut reader, mut verification) = (items.dump.reader(), Verification::default());
    let keys = options.key_count()?;
    for number in 0..sets(options, items) {
        let Some(item) = reader.next_item() else { break };
        let key = match &items.prefix {
            Some(prefix) => format!("{prefix}{}", options.data.first_key + number % keys).into_bytes(),
            None => item.key.to_vec(),
        };
        match mismatch(target, &mut channel, &key, item.data)? {
            None => verification.verified += 1,
            Some(text) => {
                verification.failed += 1;
                eprintln!("error: {text}");
            }
        }
    }
    Ok(verification)
}

/// How many items one connection sets; each of them once where only the time says when it ends.
fn sets(options: &Options, items: &Items) -> u64 {
    let [sets, gets] = options.load.ratio;
    match (options.load.requests, options.load.test_time) {
        (Requests::OfEachConnection(requests), None) => {
            let deck = sets.saturating_add(gets);
            requests / deck * sets + sets.min(requests % deck)
        }
        _ => items.dump.count(),
    }
}

/// What the server holds under `key` instead of `data`, if it does not hold that.
fn mismatch(
    target: &Target,
    channel: &mut Channel,
    key: &[u8],
    data: &[u8],
) -> Result<Option<String>, Failure> {
    let words: [&[u8]; 2] = [b"GET", key];
    let answer = target.ask_raw(channel, &resp::command(&words));
    let answer = answer.map_err(|error| target.unanswered(&["GET"], &error))?;
    let (key, wanted) = (String::from_utf8_lossy(key), String::from_utf8_lossy(data));
    Ok(match Reply::parse(&answer) {
        Some(Reply::Text(value)) if value == data => None,
        Some(Reply::Error(text)) => Some(format!("request for key [{key}] failed: {text}")),
        Some(Reply::Text(value)) => {
            Some(format!("key [{key}]: expected [{wanted}], got [{}]", String::from_utf8_lossy(&value)))
        }
        _ => Some(format!("key [{key}]: expected [{wanted}], got []")),
    })
}
