//! What the table says of a test besides its line: facts of its mode.

use crate::recovery::Recovery;
use crate::result::{CommandResult, Open, ProbeResult, ServerResult, TestResult};
use crate::search::{Search, Step};
use crate::steps::StepResult;
use engine::latency::LatencyUs;
use modes::blocking::Wakeup;
use modes::openings::Connections;
use modes::pubsub::Fanout;
use modes::replay::Replayed;

/// One note per line, at most 80 columns with two of indentation.
pub fn of(test: &TestResult) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(test.depth.filter(|_| ["closed", "churn"].contains(&&*test.mode)).map(depth));
    if let (Some(open), Some(service)) = (&test.open, &test.service_us) {
        notes.extend(schedule(open, service));
    }
    notes.extend(test.steps.iter().map(StepResult::note));
    notes.extend(test.servers.iter().map(server));
    notes.extend(test.commands.iter().map(command));
    notes.extend(test.probe.iter().map(probe));
    notes.extend(test.search.iter().flat_map(search));
    notes.extend(test.findings.connections.iter().flat_map(connections));
    notes.extend(test.findings.fanout.iter().map(fanout));
    notes.extend(test.findings.wakeup.iter().map(wakeup));
    notes.extend(test.findings.replay.iter().flat_map(Replayed::notes));
    notes.extend(test.recovery.iter().map(Recovery::note));
    if test.pushes > 0 {
        notes.push(format!("{} push messages", test.pushes));
    }
    notes
}

fn server(server: &ServerResult) -> String {
    let keys = server.keys.map_or(String::new(), |keys| format!(", {keys} keys"));
    format!("{}: {} requests, {} connections{keys}", server.address, server.requests, server.connections)
}

fn depth(depth: u64) -> String {
    format!("a connection's share of the requests is {depth}, which -P cannot exceed: raise -n")
}

const CLOSED: &str = "closed loop: from the sending, which waits for the replies";

/// From when the latencies of a test in `mode` count.
pub fn clock(mode: &str, is_open: bool) -> &'static str {
    match mode {
        "replay" if is_open => "recorded times: from the intended start",
        "closed" => CLOSED,
        "ramp" if !is_open => CLOSED,
        "open" | "ramp" | "sweep" | "search" => "open loop: from the intended start",
        _ => "from the sending",
    }
}

fn schedule(open: &Open, service: &LatencyUs) -> [String; 2] {
    [
        format!(
            "{:.0}/s asked, {} arrivals, {} unsent; sent late by p99 {:.1} us",
            open.asked_rps, open.arrivals, open.unsent, open.slip_us.p99
        ),
        format!("service time (from the sending): {}", spread(service)),
    ]
}

fn command(command: &CommandResult) -> String {
    replies_note(&command.name, command.requests, &command.latency_us)
}

fn probe(probe: &ProbeResult) -> String {
    replies_note(&format!("probe at {:.0}/s", probe.asked_rps), probe.requests, &probe.latency_us)
}

fn search(search: &Search) -> Vec<String> {
    let limit = format!("p{} <= {} us", search.percentile, search.limit_us);
    let found = match search.highest_rps {
        Some(rate) => format!("highest rate with {limit}: {rate:.0}/s"),
        None => format!("no rate was found that holds {limit} twice"),
    };
    let doubt = match search.limited_by.as_slice() {
        [] => None,
        flags => Some(format!("perhaps the driver's limit: {}", flags.join(", "))),
    };
    let steps = search.steps.iter().map(|step| step_note(step, search.percentile));
    steps.chain([found]).chain(doubt).collect()
}

fn step_note(step: &Step, percentile: f64) -> String {
    let verdict = if step.held { "held" } else { "missed" };
    let unsent = if step.unsent > 0 { format!(", {} unsent", step.unsent) } else { String::new() };
    format!("tried {:>9.0}/s: {verdict:<6} p{percentile} {:.1} us{unsent}", step.asked_rps, step.latency_us)
}

fn connections(found: &Connections) -> Vec<String> {
    let parts = [
        ("connect", Some(&found.connect_us)),
        ("TLS", found.tls_us.as_ref()),
        ("login", found.login_us.as_ref()),
        ("first reply", Some(&found.first_reply_us)),
    ];
    let present = parts.into_iter().filter_map(|(name, spread_of)| Some((name, spread_of?)));
    let counts = format!("{} connections opened, {} lost", found.opened, found.lost);
    let memory = found.server_memory.as_ref();
    let mut notes = vec![counts];
    notes.extend(present.map(|(name, latency)| format!("{name}: {}", spread(latency))));
    notes.extend(memory.map(|memory| match memory.open_bytes > memory.before_bytes {
        true => format!("{:.0} bytes per connection in the server", memory.bytes_per_connection),
        false => "the server's memory did not grow with the connections".to_owned(),
    }));
    notes
}

fn fanout(found: &Fanout) -> String {
    format!(
        "{} published ({:.0}/s), {} deliveries lost, {} doubled",
        found.published, found.published_rps, found.lost, found.duplicates
    )
}

fn wakeup(found: &Wakeup) -> String {
    format!("{} pushed for {}, {} waits timed out", found.pushed, found.command, found.timeouts)
}

/// Replies of which there were none have no percentiles.
fn replies_note(name: &str, replies: u64, latency: &LatencyUs) -> String {
    match replies {
        0 => format!("{name}: 0 replies"),
        _ => format!("{name}: {replies} replies; {}", spread(latency)),
    }
}

fn spread(latency: &LatencyUs) -> String {
    format!("p50 {:.1}, p99 {:.1}, max {:.1} us", latency.p50, latency.p99, latency.max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::histogram::Histogram;

    #[test]
    fn the_notes_of_a_search_fit_their_columns() {
        let found = Search {
            percentile: 99.9,
            limit_us: 1000.0,
            highest_rps: None,
            limited_by: ["client_bound", "client_delayed", "slipped"].map(Into::into).to_vec(),
            steps: Vec::new(),
        };
        let notes = search(&found);
        assert_eq!(
            notes.last().unwrap(),
            "perhaps the driver's limit: client_bound, client_delayed, slipped"
        );
        assert!(notes.iter().all(|note| note.len() <= 78), "{notes:?}");
    }

    #[test]
    fn a_command_without_replies_has_no_percentiles() {
        assert_eq!(replies_note("set", 0, &LatencyUs::of(&Histogram::default())), "set: 0 replies");
    }
}
