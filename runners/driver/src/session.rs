//! A run from the first connection to the document: prefill, then each test in order.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::batch::ValuePool;
use crate::cli::{Length, Options};
use crate::crew;
use crate::document::{self, Document, Driver, Prefill, TargetName, TestResult};
use crate::failure::Failure;
use crate::job::{Job, Node, Window};
use crate::keys::KeyOrder;
use crate::memcached::suite::Needs;
use crate::memcached::{self, dialogue};
use crate::meter;
use crate::stage::Stage;
use crate::sys;
use crate::template::Value;
use crate::workload::{Protocol, Speech, Test, Workload};

/// A prefill batch is at most this deep ...
const PREFILL_PIPELINE: usize = 64;
/// ... and about this long.
const PREFILL_BATCH_BYTES: usize = 64 * 1024;

/// Do what `options` ask; `argv` is recorded, without the password.
pub fn run(options: &Options, argv: &[String]) -> Result<Document, Failure> {
    if !options.cpus.is_empty() {
        crew::pin_to(&options.cpus)?;
    }
    if let Some(pid) = options.server_pid {
        meter::read_server_clock(pid)?;
    }
    let digest = own_digest()?;
    let started_at = rfc3339(SystemTime::now());
    let values = ValuePool::new(options.seed, options.value_bytes);
    let prefill = options.prefill.then(|| prefill(options, &values)).transpose()?;
    let tests = options.tests.iter().map(|test| measure(options, test, &values));
    Ok(Document {
        schema: document::SCHEMA,
        tests: tests.collect::<Result<_, _>>()?,
        driver: driver(options, argv, digest),
        target: TargetName { protocol: options.protocol.name(), address: options.target.address.to_string() },
        started_at,
        prefill,
    })
}

fn driver(options: &Options, argv: &[String], digest: String) -> Driver {
    Driver {
        version: env!("CARGO_PKG_VERSION"),
        digest,
        argv: without_password(argv),
        seed: options.seed,
        threads: options.threads,
        engine: "epoll",
        clock: "CLOCK_MONOTONIC",
    }
}

/// Set every key of the keyspace once, then let the server say how many it has.
fn prefill(options: &Options, values: &ValuePool) -> Result<Prefill, Failure> {
    let keys = options.keyspace;
    let began = sys::now();
    match options.protocol {
        Protocol::Resp => fill(options, values)?,
        Protocol::Memcached => fill_memcached(options, Needs::Keys, values)?,
    }
    let seconds = document::round(document::seconds(sys::now() - began), 6);
    let (keys_in_server, place, limit) = match options.protocol {
        Protocol::Resp => (options.target.count_keys()?, " in db0", "maxmemory"),
        Protocol::Memcached => (dialogue::count_items(&options.target)?, "", "-m"),
    };
    if keys_in_server != keys {
        return Err(Failure::run(
            format!("the server holds {keys_in_server} keys{place} after a prefill of {keys}"),
            format!("start with an empty server, and look for eviction ({limit})"),
        ));
    }
    Ok(Prefill { keys, seconds, keys_in_server })
}

fn fill(options: &Options, values: &ValuePool) -> Result<(), Failure> {
    let keys = options.keyspace;
    let clients = options.clients.min(usize::try_from(keys).unwrap_or(usize::MAX));
    let test = Workload::of(Test::Set);
    let speech = test.speech(options.value_bytes, options.seed);
    let job = Job {
        clients,
        threads: options.threads.min(clients),
        pipeline: (PREFILL_BATCH_BYTES / options.value_bytes.max(1)).clamp(1, PREFILL_PIPELINE),
        key_order: KeyOrder::EachOnce,
        window: Window::Batch,
        allow_errors: false,
        ..job(options, &test, &speech, values)
    };
    speech.run(&job, &[Stage::Exactly { requests: keys }]).map(|_| ())
}

fn fill_memcached(options: &Options, needs: Needs, values: &ValuePool) -> Result<(), Failure> {
    let keys = match (needs, options.length) {
        (Needs::KeyPerRequest, Length::Requests(requests)) => requests,
        _ => options.keyspace,
    };
    let Some(test) = options.tests.first() else { return Ok(()) };
    let speech = test.speech(options.value_bytes, options.seed);
    let value = Value::Drawn(options.value_bytes);
    memcached::fill(job(options, test, &speech, values), needs, keys, &value)
}

fn measure(options: &Options, test: &Workload, values: &ValuePool) -> Result<TestResult, Failure> {
    for needs in test.needs() {
        fill_memcached(options, needs, values)?;
    }
    let speech = test.speech(options.value_bytes, options.seed);
    let job = job(options, test, &speech, values);
    let outcome = speech.run(&job, &stages(options.warmup, options.length))?;
    Ok(TestResult::new(&job, workload(options, test), &outcome))
}

/// A warm-up of `warmup`, then a window of `length`.
pub fn stages(warmup: Duration, length: Length) -> Vec<Stage> {
    let warmup_ns = ns(warmup);
    match length {
        Length::Lasting(window) => vec![Stage::Timed { warmup_ns, window_ns: ns(window) }],
        Length::Requests(requests) if warmup_ns == 0 => vec![Stage::Exactly { requests }],
        Length::Requests(requests) => {
            vec![Stage::WarmUp { ns: warmup_ns }, Stage::Exactly { requests }]
        }
    }
}

fn job(options: &Options, test: &Workload, speech: &Speech, values: &ValuePool) -> Job {
    Job {
        name: test.name.clone(),
        nodes: vec![Node { target: options.target.clone(), tags: [].into() }],
        script: speech.script().clone().into(),
        reads: test.reads(),
        clients: options.clients,
        threads: options.threads,
        pipeline: options.pipeline,
        window: options.window,
        rate: None,
        keepalive: true,
        keyspace: options.keyspace,
        key_order: KeyOrder::Uniform,
        values: values.clone(),
        seed: options.seed,
        cpus: options.cpus.clone(),
        server_pid: options.server_pid,
        slice_ns: options.slice_ms * 1_000_000,
        allow_errors: options.allow_errors,
    }
}

fn workload(options: &Options, test: &Workload) -> document::Workload {
    let (duration_s, requests) = match options.length {
        Length::Lasting(window) => (Some(window.as_secs_f64()), None),
        Length::Requests(requests) => (None, Some(requests)),
    };
    document::Workload {
        test: test.name.clone(),
        clients: options.clients,
        pipeline: options.pipeline,
        keyspace: options.keyspace,
        value_bytes: options.value_bytes,
        warmup_s: options.warmup.as_secs_f64(),
        duration_s,
        requests,
    }
}

fn ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// Results are published; a password (`-a secret`, `-asecret`) must not be.
fn without_password(argv: &[String]) -> Vec<String> {
    let before = [""].into_iter().chain(argv.iter().map(String::as_str));
    argv.iter()
        .zip(before)
        .map(|(word, before)| match before {
            "-a" => "***".to_owned(),
            _ if word.starts_with("-a") && word.len() > 2 => "-a***".to_owned(),
            _ => word.clone(),
        })
        .collect()
}

/// SHA-256 of the running binary.
fn own_digest() -> Result<String, Failure> {
    let binary = std::fs::read("/proc/self/exe")
        .map_err(|error| Failure::run(format!("cannot read the own binary ({error})"), "mount /proc"))?;
    let hex: String = Sha256::digest(&binary).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hex}"))
}

/// UTC with milliseconds: `2026-11-20T18:31:00.123Z`. The calendar is Howard Hinnant's `civil_from_days`.
fn rfc3339(time: SystemTime) -> String {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since_1970.as_secs() / 86_400, since_1970.as_secs() % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = since_1970.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_is_hidden() {
        let hidden =
            |words: &[&str]| without_password(&words.iter().map(|w| w.to_string()).collect::<Vec<_>>());
        assert_eq!(hidden(&["run", "-c", "1", "-a", "1"]), ["run", "-c", "1", "-a", "***"]);
        assert_eq!(hidden(&["run", "-a1", "-t", "get"]), ["run", "-a***", "-t", "get"]);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |ms| rfc3339(UNIX_EPOCH + Duration::from_millis(ms));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_795_199_460_123), "2026-11-20T18:31:00.123Z");
        assert_eq!(at(4_102_444_799_999), "2099-12-31T23:59:59.999Z");
    }
}
