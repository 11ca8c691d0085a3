//! A server that is slow, and not silent: as long as bytes move in either direction no timeout ends the run.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use crate::support::{failure_line, speedbench, written};
use socket2::SockRef;

const MIB: usize = 1 << 20;
/// A chunk each 40 ms, which a value takes more than two seconds for.
const CHUNK: usize = 64 * 1024;
const PAUSE: Duration = Duration::from_millis(40);

/// Reads slowly, and answers SET when all but `unread` bytes of `value` are read.
fn read_slowly(mut stream: impl Read + Write, unread: usize) {
    let (mut chunk, mut read) = (vec![0; CHUNK], 0);
    while let Ok(received @ 1..) = stream.read(&mut chunk) {
        read += received;
        if read > 4 * MIB - unread {
            break;
        }
        thread::sleep(PAUSE);
    }
    if unread > 0 {
        thread::sleep(Duration::from_secs(60));
    }
    while read < 4 * MIB {
        read += stream.read(&mut chunk).unwrap();
    }
    let _ = stream.write_all(b"+OK\r\n");
    let _ = stream.read(&mut chunk);
}

/// Answers slowly with a value.
fn answer_slowly(mut stream: impl Read + Write) {
    if !matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
        return;
    }
    let value = vec![b'x'; CHUNK];
    let _ = stream.write_all(format!("${}\r\n", 4 * MIB).as_bytes());
    for _ in 0..4 * MIB / CHUNK {
        let _ = stream.write_all(&value);
        thread::sleep(PAUSE);
    }
    let _ = stream.write_all(b"\r\n");
    let _ = stream.read(&mut [0; 4096]);
}

/// A port whose connections `serve` is given, one after the other, with small buffers.
fn tcp(serve: impl Fn(std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    SockRef::from(&listener).set_recv_buffer_size(16 * 1024).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    thread::spawn(move || listener.incoming().flatten().for_each(serve));
    format!("-p {port}")
}

fn unix(name: &str, serve: impl Fn(std::os::unix::net::UnixStream) + Send + 'static) -> String {
    let path = written(&format!("{name}.sock"), "");
    std::fs::remove_file(&path).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(serve));
    format!("-s {path}")
}

fn words(place: &str, load: &str) -> impl Iterator<Item = String> {
    let words = format!("run {place} -n 1 -c 1 -d {} --timeout 1 {load}", 4 * MIB);
    words.split(' ').map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// Runs against all servers at once: each takes seconds, in which nothing but the server's pauses passes.
fn at_once<const N: usize>(places: [String; N], check: impl Fn(&str) + Sync) {
    thread::scope(|scope| places.iter().for_each(|place| drop(scope.spawn(|| check(place)))));
}

#[test]
fn a_slow_reader_is_waited_for() {
    at_once([tcp(|it| read_slowly(it, 0)), unix("reads", |it| read_slowly(it, 0))], |place| {
        let output = speedbench(words(place, "-t set"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
fn a_slow_answer_is_waited_for() {
    at_once([tcp(answer_slowly), unix("answers", answer_slowly)], |place| {
        let output = speedbench(words(place, "-t get"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
fn a_slow_answer_to_a_churn_is_waited_for() {
    at_once([tcp(answer_slowly), unix("churn", answer_slowly)], |place| {
        // Before a churn there is one connection that only looks whether the server is there.
        let output = speedbench(words(place, "--mode churn -t get"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
fn a_reader_that_stops_ends_the_run() {
    at_once([tcp(|it| read_slowly(it, MIB)), unix("stops", |it| read_slowly(it, MIB))], |place| {
        let line = failure_line(speedbench(words(place, "-t set")), 1);
        assert!(line.contains("the server stopped answering set on connection 0 for 1s"), "{line}");
    });
}
