//! The bytes that redis-benchmark and ours send to the same recording server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::machine::{OURS, output};

const DEBIAN_TESTS: &str = "ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,\
lrange,mset";

/// The commands of each connection, in the order in which connections came.
type Recorded = Arc<Mutex<Vec<Vec<Vec<u8>>>>>;

fn record() -> (String, Recorded) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let recorded = Recorded::default();
    let shared = recorded.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let shared = shared.clone();
            let index = shared.lock().unwrap().len();
            shared.lock().unwrap().push(Vec::new());
            std::thread::spawn(move || converse(stream.unwrap(), &shared, index));
        }
    });
    (port, recorded)
}

fn converse(mut stream: TcpStream, recorded: &Recorded, index: usize) -> Option<()> {
    let (mut pending, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let received = stream.read(&mut chunk).ok().filter(|received| *received > 0)?;
        pending.extend_from_slice(&chunk[..received]);
        while let Some(length) = command(&pending) {
            let command: Vec<u8> = pending.drain(..length).collect();
            let answer = answer(&command);
            recorded.lock().unwrap()[index].push(command);
            stream.write_all(answer).ok()?;
        }
    }
}

/// The length of the first command, inline or not; none when it is not whole.
fn command(bytes: &[u8]) -> Option<usize> {
    let line = |at: usize| bytes.get(at..)?.windows(2).position(|pair| pair == b"\r\n").map(|end| at + end);
    let number = |from, end| std::str::from_utf8(&bytes[from..end]).unwrap().parse::<usize>().unwrap();
    let end = line(0)?;
    if bytes[0] != b'*' {
        return Some(end + 2);
    }
    let mut at = end + 2;
    for _ in 0..number(1, end) {
        let end = line(at)?;
        at = end + 2 + number(at + 1, end) + 2;
    }
    (at <= bytes.len()).then_some(at)
}

fn answer(command: &[u8]) -> &'static [u8] {
    let text = String::from_utf8_lossy(command);
    let name = text.lines().nth(2).unwrap_or("PING");
    match name {
        "PING" => b"+PONG\r\n",
        "GET" | "LPOP" | "RPOP" | "SPOP" | "XADD" => b"$1\r\nx\r\n",
        "INCR" | "LPUSH" | "RPUSH" | "SADD" | "HSET" | "ZADD" => b":1\r\n",
        "ZPOPMIN" | "LRANGE" => b"*0\r\n",
        "CONFIG" => b"*2\r\n$4\r\nsave\r\n$0\r\n\r\n",
        _ => b"+OK\r\n",
    }
}

/// Digits where numbers were put.
fn masked(command: &[u8]) -> String {
    let text = String::from_utf8_lossy(command).into_owned();
    let mut masked = String::new();
    let mut digits = String::new();
    for letter in text.chars().chain(['\0']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        masked += if digits.len() == 12 { "<number>" } else { &digits };
        digits.clear();
        masked.push(letter);
    }
    masked.trim_end_matches('\0').to_owned()
}

/// What each connection sent that is part of the load.
fn sent(program: &str, first: &[&str], words: &[&str]) -> Vec<Vec<String>> {
    let (port, recorded) = record();
    let all = [first, &["-p", &port, "-c", "1", "-n", "4", "-q"], words].concat();
    let output = output(program, &all);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let recorded = recorded.lock().unwrap().clone();
    let asks = |commands: &Vec<Vec<u8>>| {
        commands.iter().any(|command| command.windows(6).any(|part| part == b"CONFIG"))
    };
    let load = recorded.iter().filter(|commands| !asks(commands) && !commands.is_empty());
    load.map(|commands| commands.iter().map(|command| masked(command)).collect()).collect()
}

fn assert_same(words: &[&str]) {
    let theirs = sent("redis-benchmark", &[], words);
    assert!(!theirs.is_empty());
    assert_eq!(sent(OURS, &["redis-benchmark"], words), theirs, "{words:?}");
}

#[test]
fn default_tests_are_byte_equal() {
    let options: [&[&str]; 7] = [
        &[],
        &["-d", "20"],
        &["-r", "1000"],
        &["-P", "4"],
        &["-k", "0"],
        &["-a", "secret", "--user", "joe", "--dbnum", "5", "-3", "--enable-tracking"],
        &["-r", "10", "-P", "2", "-d", "100"],
    ];
    for options in options {
        assert_same(&[options, &["-t", DEBIAN_TESTS]].concat());
    }
}

#[test]
fn custom_commands_are_byte_equal() {
    assert_same(&["eval", "return redis.call(\"ping\")", "0"]);
    assert_same(&["set", "key:__rand_int__", "v"]);
    assert_same(&["-r", "100", "set", "key:__rand_int__", "__rand_int__"]);
}

/// Debian's redis-benchmark has no XADD; this is what later ones send.
#[test]
fn xadd_is_that_of_later_versions() {
    let sent = sent(OURS, &["redis-benchmark"], &["-t", "xadd"]);
    assert_eq!(sent[0][0].replace("\r\n", " "), "*5 $4 XADD $8 mystream $1 * $7 myfield $3 VXK ");
}
