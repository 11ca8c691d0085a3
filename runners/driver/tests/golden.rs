//! The document keeps the shape of the golden file, which the readers of the document test, too.

use crate::support::shape::{names, shape};
use crate::support::{Manner, Server};
use serde_json::{Value, json};

const GOLDEN: &str = include_str!("golden/speedbench.v1.json");
const README: &str = include_str!("../README.md");
const WORKLOAD: &str = include_str!("golden/speedbench.v1.toml");

fn golden() -> Value {
    serde_json::from_str(GOLDEN).unwrap()
}

#[test]
fn the_document_has_the_shape_of_the_golden_file() {
    let server = Server::unix(Manner::Honest);
    let file = std::env::temp_dir().join(format!("golden-{}.toml", std::process::id()));
    let quick = WORKLOAD.replace("duration_s = 2.0", "duration_s = 0.4\nwarmup_s = 0.1");
    std::fs::write(&file, quick.replace("100_000", "100")).unwrap();
    let (path, pid) = (file.to_str().unwrap(), std::process::id());
    let document = server.document(&format!("--workload {path} --server-pid {pid}"));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(shape(&document), shape(&golden()));
}

#[test]
fn what_was_not_asked_is_null() {
    let server = Server::tcp(Manner::Honest);
    let document = server.document("-t ping -n 10 -c 2");
    assert_eq!(document["prefill"], Value::Null);
    let test = &document["tests"][0];
    assert_eq!(test["server_cpu"], Value::Null);
    assert_eq!(test["slices"]["server_cpu_ns"], json!([]));
    assert_eq!(test["workload"]["duration_s"], Value::Null);
}

#[test]
fn the_golden_file_agrees_with_itself() {
    let golden = golden();
    assert_eq!(golden["schema"], "speedbench.v1");
    for test in golden["tests"].as_array().unwrap() {
        let sum =
            |list: &Value| list.as_array().unwrap().iter().map(|part| part.as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum(&test["slices"]["requests"]), test["requests"].as_u64().unwrap());
        assert_eq!(sum(&test["slices"]["server_cpu_ns"]), test["server_cpu"]["ns"].as_u64().unwrap());
        let server = &test["server"];
        let parts = server["user_ns"].as_u64().unwrap() + server["system_ns"].as_u64().unwrap();
        assert_eq!(parts, test["server_cpu"]["ns"].as_u64().unwrap());
        let client = &test["client_cpu"];
        let used = client["user_ns"].as_u64().unwrap() + client["system_ns"].as_u64().unwrap();
        assert_eq!(sum(&test["slices"]["client_cpu_ns"]), used);
        let latency: Vec<f64> = ["min", "p50", "p90", "p95", "p99", "p99_9", "max"]
            .map(|name| test["latency_us"][name].as_f64().unwrap())
            .to_vec();
        assert!(latency.is_sorted(), "{latency:?}");
    }
}

#[test]
fn every_field_is_in_the_list_of_the_readme() {
    let begin = README.find("## `speedbench.v1`").unwrap();
    let chapter = README[begin..].split("\n## ").next().unwrap();
    let cells: String =
        chapter.lines().filter_map(|line| line.strip_prefix("- ")?.split(": ").next()).collect();
    let message: Vec<&str> = cells.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    let mut fields = Vec::new();
    names(&golden(), &mut fields);
    let missing: Vec<&String> = fields.iter().filter(|field| !message.contains(&field.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
