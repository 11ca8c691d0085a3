//! The page of `--html`: it stands alone, and has the numbers of the document.

use serde_json::Value;

use super::machine::{Directory, OURS, Redis, output, said};
use crate::support::written;

/// The page that a run with `words` leaves, and its document.
fn page(redis: &Redis, words: &str) -> (String, Value) {
    let directory = Directory::new();
    let file = directory.path("page.html");
    let words = format!("run -s {} --json --html {file} {words}", redis.socket);
    let text = said(OURS, &words.split(' ').collect::<Vec<&str>>());
    (std::fs::read_to_string(&file).unwrap(), serde_json::from_str(&text).unwrap())
}

/// The tags of `page` are closed in the order in which they were opened; the texts of its cells, in order.
fn cells(page: &str) -> Vec<String> {
    let (mut open, mut cells) = (Vec::new(), Vec::new());
    for part in page.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        let name = tag.split([' ', '/']).next().unwrap();
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed)),
            None if tag.starts_with('!') || tag.ends_with('/') => {}
            None => open.push(name),
        }
        if ["td", "th"].contains(&name) && !tag.starts_with('/') {
            cells.push(text.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    cells
}

#[test]
fn a_page_stands_alone_and_has_the_numbers_of_the_document() {
    let redis = Redis::start(&[]);
    let (page, document) = page(&redis, "-t get:9+set:1,ping -c 4 --duration 0.5 --warmup 0");
    let cells = cells(&page);
    for (place, test) in document["tests"].as_array().unwrap().iter().enumerate() {
        let row = &cells[11 * (place + 1)..11 * (place + 2)];
        let number = |path: &str| test.pointer(path).unwrap().as_f64().unwrap();
        assert_eq!(row[0], test["name"].as_str().unwrap());
        assert_eq!(row[1].parse::<f64>().unwrap(), number("/requests"));
        for (cell, path) in [
            (2, "/throughput_rps"),
            (4, "/latency_us/p50"),
            (6, "/latency_us/p99"),
            (7, "/latency_us/p99_9"),
            (8, "/latency_us/max"),
            (9, "/client_cpu/ns_per_request"),
        ] {
            assert_eq!(row[cell], format!("{:.1}", number(path)), "{path}");
        }
        assert_eq!((row[3].as_str(), row[10].as_str()), ("0", "–"));
    }
    let lines: Vec<&str> =
        page.split("<polyline points=\"").skip(1).map(|it| it.split('"').next().unwrap()).collect();
    let counts: Vec<usize> = lines.iter().map(|line| line.split(' ').count()).collect();
    assert_eq!(counts, [151, 5, 151, 5], "two curves of each test");
    for load in ["http", "<script", "<link", "<img", "url(", "@import"] {
        assert!(!page.contains(load), "{load}");
    }
}

#[test]
fn names_are_text_and_ramps_and_cuts_are_told() {
    let redis = Redis::start(&[]);
    let file = written(
        "html.toml",
        "[[phase]]\nname = \"<b>&\\\"\"\ntest = \"ping\"\nclients = 3\nduration_s = 0.4\nwarmup_s = 0.0\nmode = \"ramp\"\n\
         ramp = { of = \"clients\", from = 1, to = 3, steps = 2 }\n",
    );
    let (page, _) = page(&redis, &format!("--workload {file}"));
    cells(&page);
    assert!(page.contains("<h2>&lt;b&gt;&amp;&quot;</h2>") && !page.contains("<b>"), "{page}");
    assert!(page.contains("<li>from 0.2 s with 2.5 clients: "), "{page}");
    let path = "/nowhere/at/all.html";
    let failed = output(OURS, &["run", "-s", &redis.socket, "-t", "get", "-n", "10", "--html", path]);
    let message = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(message.contains("cannot write /nowhere/at/all.html (No such file or directory"), "{message}");
    assert_eq!(redis.calls("get"), 0);
}
