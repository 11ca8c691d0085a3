//! Debian's memcached, as a server that ends with its test.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use super::machine::{Directory, OURS, await_answer, free_port, output, said};

/// How one of the users of [`Memcached::with_logins`] logs in.
const LOGIN: &str = "set auth 0 0 12\r\nbench secret\r\n";

/// A server that ends with the test.
pub struct Memcached {
    child: Child,
    /// The options that lead the driver here.
    pub place: [String; 2],
    /// Those that lead the test to it without TLS, and what is said first there.
    plain: [String; 2],
    login: &'static str,
    _directory: Directory,
}

impl Memcached {
    pub fn tcp(words: &[&str]) -> Memcached {
        let port = free_port().to_string();
        let place = ["-p".to_owned(), port.clone()];
        Memcached::start(
            place,
            &[&["-l", "127.0.0.1", "-p", &port, "-U", "0"], words].concat(),
            Directory::new(),
        )
    }

    pub fn unix(words: &[&str]) -> Memcached {
        let directory = Directory::new();
        let socket = directory.path("socket");
        // The server gives its rights away before it makes the socket.
        let folder = std::path::Path::new(&socket).parent().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder, open).unwrap();
        Memcached::start(
            ["-s".to_owned(), socket.clone()],
            &[&["-s", &socket, "-a", "0777"], words].concat(),
            directory,
        )
    }

    /// With TLS at its place, by options of which the last are `files`.
    pub fn tls(files: &str) -> Memcached {
        let [port, plain] = [free_port(), free_port()].map(|port| port.to_string());
        let listens = format!("127.0.0.1:{port},notls:127.0.0.1:{plain}");
        let words = ["-l", &listens, "-p", &port, "-U", "0", "-Z", "-o", files];
        let place = ["-p".to_owned(), port.clone()];
        Memcached::started(place, ["-p".to_owned(), plain.clone()], "", &words, Directory::new())
    }

    /// With the login of [`LOGIN`].
    pub fn with_logins() -> Memcached {
        let (port, directory) = (free_port().to_string(), Directory::new());
        let file = directory.path("logins");
        std::fs::write(&file, "bench:secret\n").unwrap();
        let words = ["-l", "127.0.0.1", "-p", &port, "-U", "0", "-Y", &file];
        let place = ["-p".to_owned(), port.clone()];
        Memcached::started(place.clone(), place, LOGIN, &words, directory)
    }

    fn start(place: [String; 2], words: &[&str], directory: Directory) -> Memcached {
        Memcached::started(place.clone(), place, "", words, directory)
    }

    fn started(
        place: [String; 2],
        plain: [String; 2],
        login: &'static str,
        words: &[&str],
        directory: Directory,
    ) -> Memcached {
        let child = Command::new("memcached")
            .args(["-u", "nobody", "-t", "1"])
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("memcached is missing ({error}): install it for these tests"));
        let mut server = Memcached { child, place, plain, login, _directory: directory };
        let place = server.plain.clone();
        await_answer("memcached", &mut server.child, || {
            ask(&place, &format!("{login}version\r\n")).is_some()
        });
        server
    }

    pub fn ask(&self, line: &str) -> Option<String> {
        ask(&self.plain, &format!("{}{line}", self.login))
    }

    pub fn stats(&self) -> HashMap<String, u64> {
        let stats = self.ask("stats\r\n").unwrap();
        let stat = |line: &str| {
            let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        stats.lines().filter_map(stat).collect()
    }

    pub fn words<'a>(&'a self, first: &'a str, words: &'a str) -> Vec<&'a str> {
        let place = self.place.iter().map(String::as_str);
        [first].into_iter().chain(place).chain(words.split_whitespace()).collect()
    }

    pub fn ours(&self, words: &str) -> String {
        said(OURS, &self.words("memcached-benchmark", words))
    }

    pub fn document(&self, words: &str) -> serde_json::Value {
        let words = format!("--protocol memcached --json {words}");
        serde_json::from_str(&said(OURS, &self.words("run", &words))).unwrap()
    }

    pub fn failure(&self, first: &str, words: &str) -> String {
        failure(&self.words(first, words), 1)
    }
}

impl Memcached {
    /// End it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The one line of a run that must fail without a result.
pub fn failure(words: &[&str], code: i32) -> String {
    let output = output(OURS, words);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?} {message}");
    assert!(output.stdout.is_empty() && message.lines().count() == 1, "{words:?} {message}");
    message
}

fn ask([option, place]: &[String; 2], line: &str) -> Option<String> {
    match option.as_str() {
        "-p" => dialogue(TcpStream::connect(("127.0.0.1", place.parse().unwrap())).ok()?, line),
        _ => dialogue(UnixStream::connect(place).ok()?, line),
    }
}

/// All that is said before the server closes the connection.
fn dialogue(mut stream: impl Read + Write, line: &str) -> Option<String> {
    stream.write_all(format!("{line}quit\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
