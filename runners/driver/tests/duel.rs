//! `speedbench duel`: the alternation, what is counted in it, and the verdict.

use std::process::{Child, Command, Stdio};

use crate::support::duel::{measured, number, order, ratio, slices, sum};
use crate::support::ping_server::PingServer;
use crate::support::shape::{names, shape};
use crate::support::{Manner, Server, null_server, on_a_terminal, speedbench};
use serde_json::Value;

const GOLDEN: &str = include_str!("golden/speedbench.duel.v1.json");
const README: &str = include_str!("../README.md");

#[test]
fn nothing_is_in_flight_at_the_edges() {
    let (base, head) = (PingServer::slow(), PingServer::slow());
    let document =
        measured(&base.port, &head.port, "-t ping -c 4 -P 3 --warmup 0 --duration 0.4 --slice-ms 20");
    let slices = slices(&document);
    let span = |slice: &Value| {
        let began = number(&slice["began_ns"]);
        (began, began + number(&slice["ns"]))
    };
    assert!(slices.windows(2).all(|two| span(&two[0]).1 <= span(&two[1]).0));
    let (first, _) = span(&slices[0]);
    for slice in &slices {
        let [p50, p99] = ["latency_us_p50", "latency_us_p99"].map(|name| slice[name].as_f64().unwrap());
        // What is in flight has a latency within the slice.
        assert!(0.0 < p50 && p50 <= p99 && p99 * 1000.0 <= number(&slice["ns"]) as f64 * 1.004, "{slice}");
    }
    for (server, side) in [(&base, "base"), (&head, "head")] {
        let own: Vec<_> = slices.iter().filter(|slice| slice["side"] == side).map(span).collect();
        let requests = server.requests();
        let counted: Vec<_> = requests.iter().filter(|request| request.read_at >= first).collect();
        for request in &counted {
            let holds = |span: &&(u64, u64)| span.0 <= request.read_at && request.answered_at <= span.1;
            assert!(own.iter().any(|span| holds(&span)), "{request:?} is outside of the slices of {side}");
        }
        let answered: u64 = counted.iter().map(|request| request.count).sum();
        assert_eq!(answered, sum(&document, side, "requests"), "{side}");
        let result = &document["tests"][0][side];
        assert_eq!((number(&result["requests"]), number(&result["unfinished"])), (answered, 0));
    }
}

#[test]
fn each_pair_has_one_slice_of_each_side_in_an_order_by_lot() {
    let (base, head) = (Server::unix(Manner::Honest), Server::unix(Manner::Honest));
    let run = |seed: u32| {
        let load = "-t ping -c 2 --warmup 0 --duration 0.2 --slice-ms 5";
        order(&measured(&base.options[1], &head.options[1], &format!("{load} --seed {seed}")))
    };
    let one = run(1);
    let pairs: Vec<&str> = (0..one.len() / 2).map(|pair| &one[2 * pair..2 * pair + 2]).collect();
    assert_eq!(pairs.len(), 40);
    assert!(pairs.iter().all(|pair| ["bh", "hb"].contains(pair)), "{one}");
    let base_first = pairs.iter().filter(|pair| **pair == "bh").count();
    // The seed is fixed, so this never flickers.
    assert!((10..=30).contains(&base_first), "{one}");
    assert_eq!(one, run(1));
    assert_ne!(one, run(2));
}

#[test]
fn both_servers_are_prefilled_and_get_the_same_requests() {
    let (base, head) = (Server::tcp(Manner::Honest), Server::unix(Manner::Honest));
    let load = "--prefill -t get:9+set:1 -r 1003 -d 40 -c 7 -P 8 --duration 0.2 --slice-ms 10";
    let document = measured(&base.options[1], &head.options[1], load);
    let test = &document["tests"][0];
    for (side, server) in [("base", &base), ("head", &head)] {
        assert_eq!(test[side]["prefill"]["keys_in_server"], 1003);
        assert_eq!(test[side]["misses"], 0);
        assert_eq!(server.seen().store.len(), 1003);
        let names: Vec<_> = test[side]["commands"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["get", "set"]);
    }
    assert_eq!(document["failure"], Value::Null);
    assert_eq!(document["head"]["address"], format!("unix:{}", head.options[1]));
    // What a connection sends depends on the seed, not on the side; how much of it depends on the server.
    let streams = |server: &Server| {
        let mut streams: Vec<_> =
            server.seen().streams.iter().filter(|it| it.len() > 1000).cloned().collect();
        streams.iter_mut().for_each(|stream| stream.truncate(1000));
        streams.sort();
        streams
    };
    assert_eq!(streams(&base), streams(&head));
}

#[test]
fn an_open_loop_has_the_same_schedule_on_both_sides() {
    let (base, head) = (Server::unix(Manner::Honest), Server::unix(Manner::Honest));
    for arrivals in ["fixed", "poisson"] {
        let load =
            format!("-t ping -c 4 -P 64 --rate 5000 --arrivals {arrivals} --duration 0.5 --slice-ms 50");
        let document = measured(&base.options[1], &head.options[1], &load);
        let slices = slices(&document);
        assert_eq!(slices.len(), 20);
        for pair in slices.chunks(2) {
            assert_eq!(pair[0]["requests"], pair[1]["requests"], "{arrivals}");
        }
        let counts: Vec<u64> = slices.iter().step_by(2).map(|slice| number(&slice["requests"])).collect();
        match arrivals {
            "fixed" => assert!(counts.iter().all(|count| *count == 250), "{counts:?}"),
            _ => assert!(counts.iter().any(|count| *count != counts[0]), "pairs have gaps of their own"),
        }
        let result = &document["tests"][0]["head"];
        assert_eq!((&result["mode"], &result["open"]["asked_rps"]), (&"open".into(), &5000.0.into()));
        assert_eq!(document["tests"][0]["verdict"]["metric"], "latency_us_p99");
    }
}

/// A null server in a process of its own: this test binary, which runs `serves_when_asked` only.
struct Process {
    child: Child,
    socket: String,
}

impl Process {
    /// One that spends `work` rounds of a loop on each request.
    fn start(name: &str, work: u64) -> Process {
        let file = format!("speedbench-duel-{}-{name}.sock", std::process::id());
        let socket = std::env::temp_dir().join(file).to_str().unwrap().to_owned();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "duel::serves_when_asked"]).env("NULL_SERVER", format!("{socket} {work}"));
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Process { child, socket }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[test]
fn serves_when_asked() {
    let Ok(asked) = std::env::var("NULL_SERVER") else { return };
    let (socket, work) = asked.split_once(' ').unwrap();
    let manner = null_server::Manner::of("resp").unwrap().working(work.parse().unwrap());
    null_server::serve(&null_server::Listener::bind(socket).unwrap(), &manner).unwrap();
}

#[test]
fn a_server_with_more_work_is_found_on_whichever_side_it_is() {
    let (quick, slow) = (Process::start("quick", 0), Process::start("slow", 1000));
    let run = |base: &Process, head: &Process| {
        let pids = format!("--base-pid {} --head-pid {}", base.pid(), head.pid());
        let load = format!("-t get -c 5 -P 16 --warmup 0.1 --duration 1 --slice-ms 20 {pids}");
        measured(&base.socket, &head.socket, &load)
    };
    let found = run(&quick, &slow);
    let cpu = ratio(&found, "server_cpu_ns_per_request");
    assert!(cpu["ratio"].as_f64().unwrap() > 1.3, "{cpu}");
    assert_eq!(found["tests"][0]["verdict"]["head"], "slower");
    let found = run(&slow, &quick);
    assert_eq!(found["tests"][0]["verdict"]["head"], "faster");
    assert!(ratio(&found, "server_cpu_ns_per_request")["ratio"].as_f64().unwrap() < 1.0 / 1.3);
    // One process on both sides: only chance is left, and it is told.
    let alike = run(&quick, &quick);
    assert_eq!(alike["tests"][0]["flags"], serde_json::json!(["one_server"]));
    let cpu = ratio(&alike, "server_cpu_ns_per_request");
    assert!((cpu["ratio"].as_f64().unwrap() - 1.0).abs() < 0.1, "{cpu}");
}

#[test]
fn the_clocks_of_both_processes_are_read_at_the_edges() {
    let (base, head) = (Process::start("clock-base", 0), Process::start("clock-head", 0));
    let pids = format!("--base-pid {} --head-pid {}", base.pid(), head.pid());
    let load = format!("-t get -c 5 -P 16 --warmup 0.1 --duration 0.3 --slice-ms 30 {pids}");
    let document = measured(&base.socket, &head.socket, &load);
    let test = &document["tests"][0];
    for (side, process) in [("base", &base), ("head", &head)] {
        let cpu = &test[side]["server_cpu"];
        assert_eq!(
            (number(&cpu["pid"]), number(&cpu["ns"])),
            (process.pid().into(), sum(&document, side, "server_cpu_ns"))
        );
        assert!(number(&cpu["ns"]) > 0);
        assert_eq!(document[side]["pid"], process.pid());
        // The other one rests.
        assert!(test["resting_cpu_share"][side].as_f64().unwrap() < 0.5);
        assert!(test[side]["server"]["minor_faults"].is_u64(), "{}", test[side]["server"]);
        let latencies = sum(&document, side, "latencies");
        assert_eq!(latencies, number(&test[side]["requests"]), "a reply has a latency, in its slice");
        let client = &test[side]["client_cpu"];
        let used = number(&client["user_ns"]) + number(&client["system_ns"]);
        assert_eq!(used, sum(&document, side, "client_cpu_ns"));
    }
}

#[test]
fn a_table_ends_with_the_verdict_and_its_limits() {
    let server = Server::unix(Manner::Honest);
    let words =
        format!("duel --base {0} --head {0} -t ping -c 2 --duration 0.2 --slice-ms 5", server.options[1]);
    let output = speedbench(words.split_whitespace().map(str::to_owned));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.lines().skip(2).all(|line| line.chars().count() <= 80), "{text}");
    let all = text.replace('\n', " ");
    for expected in
        ["40 pairs of slices of 5 ms", "requests/s", "both sides are one server", "not two builds"]
    {
        assert!(all.contains(expected), "{expected}: {text}");
    }
    assert!(text.contains("\nhead is ") || text.contains("\nno difference of more than"), "{text}");
}

#[test]
fn a_terminal_shows_the_ratio_so_far() {
    let (base, head) = (Server::unix(Manner::Honest), Server::unix(Manner::Honest));
    let load = "-t ping -c 2 --warmup 0 --duration 600ms --slice-ms 5ms";
    let seen = on_a_terminal(&format!("duel --base {} --head {} {load}", base.options[1], head.options[1]));
    let lines: Vec<&str> = seen.split("\r\x1b[K").collect();
    let (first, last) = (lines.first().unwrap(), lines.last().unwrap());
    assert!(first.is_empty() && last.is_empty() && !seen.contains('\n'), "{seen:?}");
    let begin = "ping: pair ";
    // The interval follows the ratio, once there are ten pairs.
    let whole = |line: &&&str| line.contains(" of 120, head/base throughput_rps ") && line.ends_with('%');
    let said: Vec<&&str> = lines.iter().filter(|line| line.starts_with(begin)).collect();
    assert!(!said.is_empty() && said.iter().all(whole), "{seen:?}");
}

#[test]
fn a_number_of_requests_before_the_load_prepares_both_servers() {
    let (base, head) = (Server::unix(Manner::Honest), Server::unix(Manner::Honest));
    let file = std::env::temp_dir().join(format!("speedbench-prepare-{}.toml", std::process::id()));
    let setup =
        "[[phase]]\nname = 'setup'\nclients = 1\nrequests = 9\ncommands = [{ request = 'INCR one' }]\n";
    let load = "[[phase]]\nclients = 2\nduration_s = 0.1\ntest = 'ping'\n";
    std::fs::write(&file, format!("{setup}{load}")).unwrap();
    let options = format!("--workload {} --slice-ms 10", file.to_str().unwrap());
    let document = measured(&base.options[1], &head.options[1], &options);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(document["tests"].as_array().unwrap().len(), 1);
    for server in [&base, &head] {
        assert_eq!(server.seen().calls("INCR"), 9);
    }
}

#[test]
fn answers_that_are_not_as_expected_are_flagged_on_their_side() {
    let (base, head) = (Server::unix(Manner::Honest), Server::unix(Manner::Honest));
    let file = std::env::temp_dir().join(format!("speedbench-expect-{}.toml", std::process::id()));
    let load = "[[phase]]\nclients = 2\nduration_s = 0.1\ntest = 'get'\nkeys = { count = 10 }\nexpect = { hit_rate = 1.0 }\n";
    std::fs::write(&file, load).unwrap();
    let options = format!("--workload {} --slice-ms 10", file.to_str().unwrap());
    let filled = format!("run -s {} --prefill -t get -r 10 -n 10", head.options[1]);
    assert!(speedbench(filled.split_whitespace().map(str::to_owned)).status.success());
    let document = measured(&base.options[1], &head.options[1], &options);
    std::fs::remove_file(&file).unwrap();
    let flagged =
        |side: &str| document["tests"][0][side]["flags"].as_array().unwrap().contains(&"hit_rate".into());
    assert!(flagged("base") && !flagged("head"), "{}", document["tests"][0]["base"]["flags"]);
}

#[test]
fn a_warm_up_until_both_are_steady_ends_at_its_most() {
    let (base, head) = (Server::unix(Manner::Honest), Server::unix(Manner::Honest));
    let load = "-t ping -c 2 --warmup 0.5 --warmup-most 0.6 --duration 0.1 --slice-ms 10";
    let document = measured(&base.options[1], &head.options[1], load);
    for side in ["base", "head"] {
        let warmup = &document["tests"][0][side]["warmup"];
        let slices = number(&warmup["slices"]);
        assert!((10..=12).contains(&slices), "{warmup}");
        assert!(warmup["steady"].is_boolean());
    }
}

#[test]
fn passwords_are_not_told() {
    let server = Server::tcp(Manner::Honest);
    let place = format!("redis://tester:secret@127.0.0.1:{}", server.options[1]);
    let document = measured(&place, &place, "-t ping -c 2 --warmup 0 --duration 0.05 --slice-ms 5");
    assert!(server.seen().calls("AUTH") >= 4);
    assert!(!document.to_string().contains("secret"));
    assert!(document["driver"]["argv"].to_string().contains("***@127.0.0.1"));
}

/// The document without its two results, which have the shape of those of `run`.
fn own_part(document: &Value) -> Value {
    let mut own = document.clone();
    for test in own["tests"].as_array_mut().unwrap() {
        for side in ["base", "head"] {
            test[side] = Value::Null;
        }
    }
    own
}

#[test]
fn the_document_has_the_shape_of_the_golden_file() {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let (base, head) = (Process::start("golden-base", 0), Process::start("golden-head", 0));
    let pids = format!("--base-pid {} --head-pid {}", base.pid(), head.pid());
    let load = format!("-t get -c 5 -P 16 --warmup 0.1 --duration 0.4 --slice-ms 20 {pids}");
    let document = measured(&base.socket, &head.socket, &load);
    assert_eq!(shape(&own_part(&document)), shape(&own_part(&golden)));
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&document["tests"][0]["base"]), fields(&golden["tests"][0]["base"]));
}

#[test]
fn every_field_is_in_the_list_of_the_readme() {
    let begin = README.find("## `speedbench.duel.v1`").unwrap();
    let chapter = README[begin..].split("\n## ").next().unwrap();
    let cells: String =
        chapter.lines().filter_map(|line| line.strip_prefix("- ")?.split(": ").next()).collect();
    let words: Vec<&str> = cells.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    let mut fields = Vec::new();
    names(&own_part(&serde_json::from_str(GOLDEN).unwrap()), &mut fields);
    let of_run =
        ["driver", "environment"].map(|part| serde_json::from_str::<Value>(GOLDEN).unwrap()[part].clone());
    let mut known = Vec::new();
    of_run.iter().for_each(|part| names(part, &mut known));
    fields.retain(|field| !known.contains(field));
    let missing: Vec<&String> = fields.iter().filter(|field| !words.contains(&field.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
