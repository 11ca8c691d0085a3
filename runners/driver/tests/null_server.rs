//! The server without work, which `make bench` measures against, gives each request one reply.

use std::path::PathBuf;

use crate::support::null_server::{Listener, Manner, serve};
use crate::support::speedbench;

/// A server in a thread of its own; its socket.
fn start(protocol: &'static str) -> PathBuf {
    let name = format!("null-server-{}-{protocol}.sock", std::process::id());
    let socket = std::env::temp_dir().join(name);
    let listener = Listener::bind(socket.to_str().unwrap()).unwrap();
    std::thread::spawn(move || serve(&listener, &Manner::of(protocol).unwrap()));
    socket
}

fn answered(protocol: &str, socket: &str, pipeline: usize) {
    let words = format!("run -s {socket} --protocol {protocol} -t get -c 7 -P {pipeline} -n 50001 --json");
    let output = speedbench(words.split_whitespace().map(str::to_owned));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["tests"][0]["requests"], 50001);
    assert_eq!(document["tests"][0]["hits"], 50001);
}

#[test]
fn each_request_has_one_reply() {
    for protocol in ["resp", "memcached"] {
        let socket = start(protocol);
        for pipeline in [1, 100, 3000] {
            answered(protocol, socket.to_str().unwrap(), pipeline);
        }
        std::fs::remove_file(socket).unwrap();
    }
}
