//! The results as memtier_benchmark's JSON.

use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;

use crate::memtier_benchmark::latencies::{base64, percentile_ms, steps, to_us};
use crate::memtier_benchmark::options::Options;
use crate::memtier_benchmark::reported::{Reported, Section};
use crate::memtier_benchmark::stats::{Row, RunStats, Second};
use crate::memtier_benchmark::values::Requests;
use engine::histogram::Histogram;
use text::secrets::HIDDEN;

pub fn render(reported: &Reported) -> String {
    let mut json = Json::new();
    configuration(&mut json, reported.options);
    let load = &reported.options.load;
    let (number, unit) = reported.length();
    json.object("run information", |json| {
        json.value("Threads", load.threads);
        json.value("Connections per thread", load.clients);
        json.value(unit, number);
        json.value("Format version", 2);
    });
    for Section { title, stats } in reported.sections() {
        json.object(&title, |json| section(json, reported.options, &stats));
    }
    if let Some(verification) = reported.verification {
        json.object("client verifications results", |json| {
            json.text("keys verified successfuly", format!("{:<10}", verification.verified));
            json.text("keys failed", format!("{:<10}", verification.failed));
        });
    }
    if let Some(driver) = &reported.driver {
        json.object("speedbench", |json| {
            json.text("version", &driver.version);
            json.text("digest", &driver.digest);
            let cut_short = reported.runs.iter().find_map(|run| run.cut_short.as_ref());
            cut_short.into_iter().for_each(|cause| json.text("cut_short", cause));
            json.value("argv", serde_json::to_string(&driver.argv).expect("texts"));
        });
    }
    json.end()
}

/// The configuration of [`render`] alone.
pub fn render_configuration(options: &Options) -> String {
    let mut json = Json::new();
    configuration(&mut json, options);
    json.end()
}

fn configuration(json: &mut Json, options: &Options) {
    json.object("configuration", |json| {
        of_server(json, options);
        of_load(json, options);
        of_data(json, options);
        of_session(json, options);
    });
}

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

fn pair((least, most): (u64, u64)) -> String {
    format!("{least}:{most}")
}

fn of_server(json: &mut Json, options: &Options) {
    let server = &options.server;
    json.text("server", server.host());
    json.value("port", server.port());
    json.text("uri", if server.uri.is_some() { HIDDEN } else { "" });
    json.text("unix socket", text(&server.socket));
    json.text("address family", server.family());
    json.text("protocol", server.protocol.text());
    json.text("out_file", text(&options.result.out_file));
    json.text("tls", options.uses_tls());
    json.text("cert", text(&server.cert));
    json.text("key", text(&server.key));
    json.text("cacert", text(&server.cacert));
    json.text("tls_skip_verify", server.insecure);
    json.text("sni", text(&server.sni));
}

fn of_load(json: &mut Json, options: &Options) {
    let (load, data) = (&options.load, &options.data);
    let requests = match (load.test_time, load.requests) {
        (None, Requests::OfEachConnection(requests)) => requests,
        (None, Requests::AllKeys) => data.last_key - data.first_key + 1,
        (Some(_), _) => 0,
    };
    json.text("client_stats", text(&options.result.client_stats));
    json.value("run_count", options.result.run_count);
    json.value("debug", 0);
    json.value("requests", requests);
    json.value("rate_limit", load.rate.unwrap_or(0.0));
    json.value("clients", load.clients);
    if let Some(first) = load.clients_start {
        json.value("clients_start", first);
        json.value("clients_step", load.clients_step);
        json.value("step_duration", load.step_duration);
    }
    json.value("threads", load.threads);
    json.value("test_time", load.test_time.map_or(0, |time| time.as_secs()));
    json.text("ratio", pair((load.ratio[0], load.ratio[1])));
    json.value("pipeline", load.pipeline);
}

fn of_data(json: &mut Json, options: &Options) {
    let data = &options.data;
    let sizes = data.data_size_list.iter().flatten().map(|(bytes, weight)| format!("{bytes}:{weight}"));
    let sizes = sizes.collect::<Vec<_>>().join(",");
    let range = data.data_size_range.map_or((0, 0), |(least, most)| (least as u64, most as u64));
    let is_fixed = sizes.is_empty() && range == (0, 0);
    let [set, get] = data.key_pattern;
    json.value("data_size", if is_fixed { data.data_size.unwrap_or(32) } else { 0 });
    json.value("data_offset", 0);
    json.text("random_data", options.load.random_data);
    json.text("data_size_range", pair(range));
    json.text("data_size_list", &sizes);
    json.text("data_size_pattern", if data.sizes_rise { "S" } else { "R" });
    json.text("expiry_range", pair(data.ttl.map_or((0, 0), |ttl| (ttl.0, ttl.1))));
    json.text("data_import", text(&options.import.file));
    json.text("data_verify", options.import.verifies());
    json.text("verify_only", options.import.verify_only);
    json.text("generate_keys", options.import.generate_keys);
    json.text("key_prefix", options.prefix());
    json.value("key_minimum", data.first_key);
    json.value("key_maximum", data.last_key);
    json.text("key_pattern", format!("{set}:{get}"));
    json.value("key_stddev", format!("{:.6}", data.deviation.unwrap_or(0.0)));
    json.value("key_median", format!("{:.6}", data.median.unwrap_or(0.0)));
    json.value("key_zipf_exp", format!("{:.6}", data.exponent));
}

fn of_session(json: &mut Json, options: &Options) {
    let load = &options.load;
    let [per_set, waits] = load.wait_ratio.unwrap_or([0, 0]);
    let (replicas, timeout) = (load.replicas.unwrap_or(0), load.wait_timeout.unwrap_or(0));
    json.value("reconnect_interval", load.reconnect_interval.unwrap_or(0));
    json.value("connection_timeout", 0);
    json.value("thread_conn_start_min_jitter_micros", load.least_jitter_us);
    json.value("thread_conn_start_max_jitter_micros", load.most_jitter_us);
    json.value("multi_key_get", load.multi_key_get.unwrap_or(0));
    json.text("authenticate", if options.server.has_login() { HIDDEN } else { "" });
    json.value("select-db", options.database());
    json.text("no-expiry", options.import.no_expiry);
    json.text("wait-ratio", pair((per_set, waits)));
    json.text("num-slaves", pair((replicas, replicas)));
    json.text("wait-timeout", format!("{timeout}-{timeout}"));
    json.text("print-all-runs", options.result.print_all_runs);
}

fn section(json: &mut Json, options: &Options, stats: &RunStats) {
    let ms = |time: Duration| time.as_millis();
    json.object("Runtime", |json| {
        json.value("Start time", ms(stats.began));
        json.value("Finish time", ms(stats.began + stats.lasted));
        json.value("Total duration", ms(stats.lasted));
        json.text("Time unit", "MILLISECONDS");
        json.text("Interrupted", stats.cut_short.is_some());
    });
    if !stats.active_clients.is_empty() {
        json.object("Active Clients", |json| {
            for (second, active) in stats.active_clients.iter().enumerate() {
                json.object(&second.to_string(), |json| {
                    json.value("Clients per thread", active.per_thread);
                    json.value("Total clients", active.total);
                });
            }
        });
    }
    let mut percentiles = options.result.percentiles.clone();
    percentiles.sort_by(f64::total_cmp);
    for (row, title) in
        stats.rows.iter().zip(titles(&stats.rows)).chain([(&stats.totals, stats.totals.title())])
    {
        json.object(&title, |json| row_of(json, row, &percentiles, options.server.cluster));
    }
    if options.result.hide_histogram {
        return;
    }
    let names = numbered(stats.rows.iter().map(|row| row.name.clone()));
    for (row, name) in stats.rows.iter().zip(names) {
        json.array(&name, |json| {
            for step in steps(&to_us(&row.latency)) {
                json.element(&format!("{{\"<=msec\": {:.3}, \"percent\": {:.3}}}", step.ms, step.percentile));
            }
        });
    }
}

/// The titles of `rows`.
fn titles(rows: &[Row]) -> Vec<String> {
    numbered(rows.iter().map(Row::title))
}

/// `names`, those that come again with a number: keys of an object differ.
fn numbered(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let number = |name: String| {
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name} #{count}") }
    };
    names.map(number).collect()
}

fn row_of(json: &mut Json, row: &Row, percentiles: &[f64], cluster: bool) {
    let kb = |rate: f64| rate / 1024.0;
    json.value("Count", row.count);
    json.number("Ops/sec", Some(row.rate), 2);
    json.number("Hits/sec", Some(row.hits_rate), 2);
    json.number("Misses/sec", Some(row.misses_rate), 2);
    if cluster {
        json.number("MOVED/sec", Some(0.0), 2);
        json.number("ASK/sec", Some(0.0), 2);
    }
    json.number("Connection Errors/sec", Some(row.connection_errors_rate), 2);
    json.value("Connection Errors", row.connection_errors);
    json.number("Latency", Some(mean_ms(&row.latency)), 3);
    latencies(json, &row.latency);
    let both = row.received_rate.map(|received| kb(received + row.sent_rate));
    json.number("KB/sec", both, 2);
    json.number("KB/sec RX/TX", both, 2);
    json.number("KB/sec RX", row.received_rate.map(kb), 2);
    json.number("KB/sec TX", Some(kb(row.sent_rate)), 2);
    json.object("Time-Serie", |json| {
        for (at, second) in row.seconds.iter().enumerate() {
            json.object(&at.to_string(), |json| second_of(json, second, percentiles));
        }
    });
    json.object("Percentile Latencies", |json| {
        for &percentile in percentiles {
            json.number(&format!("p{percentile:.3}"), Some(percentile_ms(&row.latency, percentile)), 3);
        }
        json.object("Histogram log format", |json| {
            json.text("Compressed Histogram", base64(&to_us(&row.latency)));
        });
    });
}

fn second_of(json: &mut Json, second: &Second, percentiles: &[f64]) {
    json.number("Bytes RX", second.received_bytes, 0);
    json.number("Bytes TX", Some(second.sent_bytes), 0);
    json.value("Count", second.latency.count());
    if second.latency.count() > 0 {
        latencies(json, &second.latency);
        for &percentile in percentiles {
            json.number(&format!("p{percentile:.2}"), Some(percentile_ms(&second.latency, percentile)), 3);
        }
    }
}

/// In ms.
fn latencies(json: &mut Json, latency: &Histogram) {
    json.number("Average Latency", Some(mean_ms(latency)), 3);
    json.value("Accumulated Latency", latency.sum() / 1_000_000);
    json.number("Min Latency", Some(percentile_ms(latency, 0.0)), 3);
    json.number("Max Latency", Some(percentile_ms(latency, 100.0)), 3);
}

fn mean_ms(latency: &Histogram) -> f64 {
    latency.mean() / 1e6
}

/// A JSON text that keeps the order of its keys and the digits of its numbers.
struct Json {
    text: String,
    depth: usize,
}

impl Json {
    fn new() -> Json {
        Json { text: "{".to_owned(), depth: 1 }
    }

    fn object(&mut self, name: &str, fill: impl FnOnce(&mut Json)) {
        self.nest(name, ['{', '}'], fill);
    }

    fn array(&mut self, name: &str, fill: impl FnOnce(&mut Json)) {
        self.nest(name, ['[', ']'], fill);
    }

    fn nest(&mut self, name: &str, [open, close]: [char; 2], fill: impl FnOnce(&mut Json)) {
        self.element(&format!("{}: {open}", quoted(name)));
        self.depth += 1;
        fill(self);
        self.depth -= 1;
        self.close(close);
    }

    fn close(&mut self, close: char) {
        if !self.text.ends_with(['{', '[']) {
            self.line();
        }
        self.text.push(close);
    }

    fn element(&mut self, element: &str) {
        if !self.text.ends_with(['{', '[']) {
            self.text.push(',');
        }
        self.line();
        self.text += element;
    }

    fn line(&mut self) {
        self.text.push('\n');
        self.text += &"\t".repeat(self.depth);
    }

    fn value(&mut self, name: &str, value: impl Display) {
        self.element(&format!("{}: {value}", quoted(name)));
    }

    /// With so many digits behind the point; null when it is not known.
    fn number(&mut self, name: &str, number: Option<f64>, digits: usize) {
        match number {
            Some(number) => self.value(name, format!("{number:.digits$}")),
            None => self.value(name, "null"),
        }
    }

    fn text(&mut self, name: &str, text: impl Display) {
        self.value(name, quoted(&text.to_string()));
    }

    fn end(mut self) -> String {
        self.depth = 0;
        self.close('}');
        self.text + "\n"
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text")
}
