//! Programs of the machine: servers that end with the test, and commands that must succeed.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const OURS: &str = env!("CARGO_BIN_EXE_speedbench");

/// Run a program; fails the test with a clear word when it is not installed.
pub fn output<S: AsRef<OsStr>>(program: &str, words: &[S]) -> Output {
    Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| missing(program, error))
}

fn missing(program: &str, error: std::io::Error) -> ! {
    panic!("{program} is missing ({error}): install redis-server, redis-tools and openssl for these tests")
}

/// What a program that must succeed says on stdout.
pub fn said<S: AsRef<OsStr>>(program: &str, words: &[S]) -> String {
    let output = output(program, words);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program}: {message}{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap()
}

/// What our redis-benchmark says.
pub fn ours(words: &[&str]) -> String {
    said(OURS, &[&["redis-benchmark"], words].concat())
}

/// The one line of a run of ours that must fail with `code`, and without a result that seems whole.
pub fn failure(words: &[&str], code: i32) -> String {
    let output = output(OURS, &[&["redis-benchmark"], words].concat());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{message}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(!table.contains("requests") || table.contains("cut short"), "{message}{table}");
    message.lines().last().unwrap_or_default().to_owned()
}

/// A directory that ends with the test.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("speedbench-real-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that nobody listens on, and whose cluster bus port is free, too. Both are below those that the kernel deals
/// out to connections, and each test process begins elsewhere.
pub fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const PORTS: u32 = 12_000;
    const BUS: u16 = 10_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let next = |_| {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        (FIRST + (std::process::id().wrapping_mul(97) + step) % PORTS) as u16
    };
    (0..PORTS).map(next).find(|port| is_free(*port) && is_free(port + BUS)).expect("a free port")
}

/// Wait until `answers`; fails the test when the server ends or is silent for long.
pub fn await_answer(name: &str, child: &mut Child, mut answers: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !answers() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "{name} ended at its start: {}", ended.unwrap());
        assert!(Instant::now() < deadline, "{name} does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub struct Redis {
    child: Child,
    pub port: String,
    pub socket: String,
    _directory: Directory,
}

impl Redis {
    /// A server of its own with more `words` on its command line; it answers on a unix socket, too.
    pub fn start(words: &[&str]) -> Redis {
        let directory = Directory::new();
        let (port, socket) = (free_port().to_string(), directory.path("socket"));
        let usual = ["--save", "", "--unixsocket", &socket, "--dir", directory.as_path().to_str().unwrap()];
        let port_words = if words.contains(&"--tls-port") { ["--port", "0"] } else { ["--port", &port] };
        let child = Command::new("redis-server")
            .args(port_words)
            .args(usual)
            .args(words.iter().map(|word| if *word == "PORT" { port.as_str() } else { *word }))
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| missing("redis-server", error));
        let mut redis = Redis { child, port, socket, _directory: directory };
        let socket = redis.socket.clone();
        await_answer("redis-server", &mut redis.child, || {
            let message = output("redis-cli", &["-s", &socket, "ping"]).stdout;
            ["PONG", "NOAUTH"].iter().any(|answer| String::from_utf8_lossy(&message).contains(answer))
        });
        redis
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub fn cli(&self, words: &[&str]) -> String {
        said("redis-cli", &[&["-s", &self.socket], words].concat())
    }

    /// Calls of a command since the last `CONFIG RESETSTAT`.
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.cli(&["info", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
