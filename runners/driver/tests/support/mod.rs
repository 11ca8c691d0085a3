//! A small RESP server with its own simple parser, honest or ill-mannered, and a way to run the driver against it.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod duel;
#[allow(dead_code, reason = "its main is that of the example")]
pub mod null_server;
pub mod ping_server;
pub mod shape;
pub mod terminal;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Let the program that `command` starts heed `signal`: a shell's job in the background ignores SIGINT, and so would all that
/// the tests of such a job start.
pub fn heed(command: &mut Command, signal: libc::c_int) {
    let heed = move || {
        // SAFETY: signal() may be called between fork and exec.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: it calls nothing but signal().
    unsafe { command.pre_exec(heed) };
}

/// What comes of the program after `signal`.
pub fn ended_by(signal: libc::c_int, child: Child) -> Output {
    // SAFETY: the process is our child and not yet waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    child.wait_with_output().unwrap()
}

/// How the server answers commands other than AUTH and INFO.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Honest,
    /// Every answer is `-ERR no`.
    Refusing,
    /// These bytes instead of an answer.
    Saying(&'static [u8]),
    /// These bytes, and then the connection is closed.
    HangingUp(&'static [u8]),
    Silent,
    /// Honest, and slow at first: an answer takes 50 ms for so many ms.
    Warming(u64),
    /// Honest, but the first byte of the value of this key is another than the one that was set.
    Corrupting(&'static [u8]),
    /// Honest, but the answer to the command of this name is always this.
    Lying(&'static str, &'static str),
}

/// What the server has seen and stored.
#[derive(Default)]
pub struct Seen {
    /// Calls by command name.
    pub calls: HashMap<String, u64>,
    pub store: HashMap<Vec<u8>, Vec<u8>>,
    /// All bytes that a connection has sent, in the order in which connections were accepted.
    pub streams: Vec<Vec<u8>>,
    /// When the first command came.
    pub began: Option<Instant>,
}

impl Seen {
    pub fn calls(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }
}

pub struct Server {
    /// The options that lead the driver here.
    pub options: Vec<String>,
    seen: Arc<Mutex<Seen>>,
}

trait Stream: Read + Write + Send + 'static {}
impl<T: Read + Write + Send + 'static> Stream for T {}

impl Server {
    pub fn tcp(manner: Manner) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        thread::spawn(move || listener.incoming().for_each(|it| serve(it.unwrap(), manner, &shared)));
        Server { options: vec!["-p".into(), port], seen }
    }

    pub fn unix(manner: Manner) -> Server {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("speedbench-{}-{}.sock", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path: PathBuf = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = seen.clone();
        thread::spawn(move || listener.incoming().for_each(|it| serve(it.unwrap(), manner, &shared)));
        Server { options: vec!["-s".into(), path.to_str().unwrap().into()], seen }
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Run `speedbench run` with the words of `options` against this server.
    pub fn drive(&self, options: &str) -> Output {
        let words = options.split_whitespace().map(str::to_owned);
        speedbench(["run".to_owned()].into_iter().chain(self.options.clone()).chain(words))
    }

    /// Run with `--json`; the document. Fails the test when the driver fails.
    pub fn document(&self, options: &str) -> serde_json::Value {
        let output = self.drive(&format!("{options} --json"));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Run to a failure: nothing on stdout, exit code 1; the one line on stderr.
    pub fn failure(&self, options: &str) -> String {
        failure_line(self.drive(options), 1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.options[0] == "-s" {
            let _ = std::fs::remove_file(&self.options[1]);
        }
    }
}

pub fn speedbench(words: impl IntoIterator<Item = String>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_speedbench")).args(words).output().unwrap()
}

/// What a terminal on stderr gets while `speedbench` runs with `words`.
pub fn on_a_terminal(words: &str) -> String {
    let (mut here, mut there) = (0, 0);
    // SAFETY: both descriptors are written by the call and owned below; the null pointers are allowed.
    let (mut here, there) = unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(libc::openpty(&mut here, &mut there, null, null.cast(), null.cast()), 0);
        (File::from_raw_fd(here), Stdio::from_raw_fd(there))
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedbench"));
    command.args(words.split(' ')).stdout(Stdio::null()).stderr(there);
    let mut child = command.spawn().unwrap();
    // The last descriptor of the other end goes with the command, and reading ends in an error.
    drop(command);
    let mut seen = Vec::new();
    let _ = here.read_to_end(&mut seen);
    assert!(child.wait().unwrap().success());
    String::from_utf8(seen).unwrap()
}

/// The one line on stderr, warnings and memtier's progress aside, of a run that must have ended with `code` and nothing on stdout, or with a
/// result that says that it was cut short.
pub fn failure_line(output: Output, code: i32) -> String {
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{message}");
    let result = String::from_utf8(output.stdout).unwrap().to_lowercase().replace('_', " ");
    assert!(result.is_empty() || result.contains("cut short"), "{result}");
    let aside =
        |line: &str| ["WARNING: ", "[RUN #", "Writing results "].iter().any(|begin| line.starts_with(begin));
    let lines: Vec<&str> = message.lines().filter(|line| !line.is_empty() && !aside(line)).collect();
    assert!(lines.len() == 1 && lines[0].starts_with("speedbench: "), "{message}");
    lines[0].to_owned() + "\n"
}

/// The path of a file of that name with that text, in a directory of the calling module of this process.
#[track_caller]
pub fn written(name: &str, text: &str) -> String {
    let module = Path::new(Location::caller().file()).file_stem().unwrap();
    let directory =
        std::env::temp_dir().join(format!("speedbench-files-{}", std::process::id())).join(module);
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn serve(stream: impl Stream, manner: Manner, seen: &Arc<Mutex<Seen>>) {
    let seen = seen.clone();
    let index = {
        let mut seen = seen.lock().unwrap();
        seen.streams.push(Vec::new());
        seen.streams.len() - 1
    };
    thread::spawn(move || converse(stream, manner, index, &seen));
}

fn converse(mut stream: impl Stream, manner: Manner, index: usize, seen: &Mutex<Seen>) -> Option<()> {
    let (mut pending, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let received = stream.read(&mut chunk).ok().filter(|received| *received > 0)?;
        pending.extend_from_slice(&chunk[..received]);
        let mut answers = Vec::new();
        let mut end = 0;
        if let Manner::Warming(cold_ms) = manner {
            let began = *seen.lock().unwrap().began.get_or_insert_with(Instant::now);
            if began.elapsed() < Duration::from_millis(cold_ms) {
                thread::sleep(Duration::from_millis(50));
            }
        }
        {
            let mut seen = seen.lock().unwrap();
            seen.streams[index].extend_from_slice(&chunk[..received]);
            while let Some((words, length)) = command(&pending[end..]) {
                end += length;
                answers.extend_from_slice(&answer(&words, manner, &mut seen));
            }
        }
        pending.drain(..end);
        stream.write_all(&answers).ok()?;
        if let (Manner::HangingUp(_), false) = (manner, answers.is_empty()) {
            return None;
        }
    }
}

fn answer(words: &[Vec<u8>], manner: Manner, seen: &mut Seen) -> Vec<u8> {
    let name = String::from_utf8(words[0].clone()).unwrap();
    *seen.calls.entry(name.clone()).or_default() += 1;
    match (name.as_str(), manner) {
        ("AUTH" | "auth", _) if words.last().unwrap() == b"secret" => b"+OK\r\n".to_vec(),
        ("AUTH", _) => b"-WRONGPASS no such user\r\n".to_vec(),
        ("INFO", manner) if !matches!(manner, Manner::Lying("INFO", _)) => {
            let info = format!("# Keyspace\r\ndb0:keys={},expires=0,avg_ttl=0\r\n", seen.store.len());
            bulk(info.as_bytes())
        }
        (_, Manner::Refusing) => b"-ERR no\r\n".to_vec(),
        (_, Manner::Saying(bytes) | Manner::HangingUp(bytes)) => bytes.to_vec(),
        (_, Manner::Silent) => Vec::new(),
        (name, Manner::Lying(about, lie)) if name.eq_ignore_ascii_case(about) => lie.into(),
        (name, Manner::Honest | Manner::Warming(_) | Manner::Lying(..)) => {
            honest(name, &words[1..], &mut seen.store)
        }
        (name, Manner::Corrupting(key)) => {
            let message = honest(name, &words[1..], &mut seen.store);
            if let Some(first) = seen.store.get_mut(key).filter(|_| name == "SET" && words[1] == key) {
                first[0] ^= 1;
            }
            message
        }
    }
}

fn honest(name: &str, words: &[Vec<u8>], store: &mut HashMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    match name {
        "PING" => b"+PONG\r\n".to_vec(),
        "MULTI" => b"+OK\r\n".to_vec(),
        "HELLO" => b"%0\r\n".to_vec(),
        "SUBSCRIBE" => b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n".to_vec(),
        "SELECT" => b"+OK\r\n".to_vec(),
        "CONFIG" => b"*0\r\n".to_vec(),
        "WAIT" => b":1\r\n".to_vec(),
        "MGET" => {
            let value = |key: &Vec<u8>| store.get(key).map_or(b"$-1\r\n".to_vec(), |value| bulk(value));
            [format!("*{}\r\n", words.len()).into_bytes(), words.iter().flat_map(value).collect()].concat()
        }
        "DEL" => b":0\r\n".to_vec(),
        // Nobody waits here, whether for a value or for a message.
        "BLPOP" => Vec::new(),
        "RPUSH" => b":1\r\n".to_vec(),
        "PUBLISH" => b":0\r\n".to_vec(),
        "SET" | "set" => {
            store.insert(words[0].clone(), words[1].clone());
            b"+OK\r\n".to_vec()
        }
        "GET" | "get" => store.get(&words[0]).map_or(b"$-1\r\n".to_vec(), |value| bulk(value)),
        "INCR" | "FOO" => {
            let value = store.entry(words[0].clone()).or_insert(b"0".to_vec());
            let next = std::str::from_utf8(value).unwrap().parse::<i64>().unwrap() + 1;
            *value = next.to_string().into_bytes();
            format!(":{next}\r\n").into_bytes()
        }
        other => panic!("the driver sent {other}"),
    }
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// The first command in `bytes` and its length; none when it is not whole.
fn command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let (count, mut at) = header(bytes, 0, b'*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, from) = header(bytes, at, b'$')?;
        words.push(bytes.get(from..from + length)?.to_vec());
        at = from + length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

/// The number in the line at `at`, and where the next line begins.
fn header(bytes: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let line = bytes.get(at..)?;
    let end = line.windows(2).take(32).position(|pair| pair == b"\r\n")?;
    assert_eq!(line[0], kind);
    Some((std::str::from_utf8(&line[1..end]).unwrap().parse().unwrap(), at + end + 2))
}
