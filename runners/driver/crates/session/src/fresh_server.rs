//! A server process that the driver starts for one rung of a ladder and ends after it.

use std::ffi::OsString;
use std::net::TcpListener;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use machine::process;
use network::target::{Address, Target};
use text::failure::Failure;
use text::words;

const HOST: &str = "127.0.0.1";
/// Whether it answers, or has ended, is looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// It is killed when it has not ended so long after it was asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A server process with a directory of its own; both end with this value.
pub struct FreshServer {
    child: Child,
    directory: PathBuf,
    pub address: Address,
}

impl FreshServer {
    /// Start `command`, in which `{port}`, `{socket}` and `{data}` are filled in, and wait until it accepts a connection of
    /// `target`.
    pub fn start(command: &str, target: &Target) -> Result<FreshServer, Failure> {
        let directory = directory()?;
        let port = free_port()?;
        let filled = command
            .replace("{port}", &port.to_string())
            .replace("{socket}", &socket_in(&directory))
            .replace("{data}", &directory.to_string_lossy());
        let address = address(command, port, &directory)?;
        let child = spawn(&filled, &directory);
        let mut server = match child {
            Ok(child) => FreshServer { child, directory, address },
            Err(failure) => {
                // What cannot be removed is empty.
                let _ = std::fs::remove_dir_all(&directory);
                return Err(failure);
            }
        };
        server.await_answer(target)?;
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn await_answer(&mut self, target: &Target) -> Result<(), Failure> {
        let target = Target { address: self.address.clone(), ..target.clone() };
        let deadline = Instant::now() + target.timeout;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::run(
                    format!("the server of --fresh-server ended at its start ({status})"),
                    "try the command by hand; {port}, {socket} and {data} stand for what it is given",
                ));
            }
            match target.open_connection() {
                Ok(_) => return Ok(()),
                Err(failure) if Instant::now() >= deadline => return Err(failure),
                Err(_) => thread::sleep(LOOK_EVERY),
            }
        }
    }
}

impl Drop for FreshServer {
    fn drop(&mut self) {
        process::terminate(self.child.id());
        let deadline = Instant::now() + ENDS_WITHIN;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
        // Errors say that it has ended, or that nothing is there to remove.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Where the server of `command` is reached: at its socket in `directory` if it has one, else at `port`.
pub fn address(command: &str, port: u16, directory: &Path) -> Result<Address, Failure> {
    match command.contains("{socket}") {
        true => Address::unix(&socket_in(directory)),
        false => Ok(Address::Tcp { host: HOST.to_owned(), port }),
    }
}

fn socket_in(directory: &Path) -> String {
    directory.join("socket").to_string_lossy().into_owned()
}

/// Check what `command` says of the address: without one, the server could not be found.
pub fn check(command: &str) -> Result<(), Failure> {
    let is_whole = words::split(command).is_some_and(|words| !words.is_empty());
    match is_whole && (command.contains("{port}") || command.contains("{socket}")) {
        true => Ok(()),
        false => Err(Failure::usage(
            "--fresh-server is not the command of a server",
            "give it with {port} or {socket}, as in 'redis-server --port {port} --dir {data}'",
        )),
    }
}

fn spawn(command: &str, directory: &Path) -> Result<Child, Failure> {
    let mut words = words::split(command).unwrap_or_default().into_iter().map(OsString::from_vec);
    let mut command = Command::new(words.next().unwrap_or_default());
    command
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    process::end_with_parent(&mut command);
    command.spawn().map_err(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        Failure::run(
            format!("cannot start {program} of --fresh-server ({error})"),
            "give a program that exists, with its path",
        )
    })
}

fn directory() -> Result<PathBuf, Failure> {
    let unique = Instant::now();
    let path = std::env::temp_dir().join(
        format!("speedbench-{}-{unique:?}", std::process::id())
            .replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', ""),
    );
    std::fs::create_dir(&path).map_err(|error| {
        Failure::machine(format!("cannot make {} ({error})", path.display()), "make room, or set TMPDIR")
    })?;
    Ok(path)
}

/// A port that nobody listens on now.
fn free_port() -> Result<u16, Failure> {
    let port = TcpListener::bind((HOST, 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|error| {
        Failure::machine(format!("there is no free port ({error})"), "close some connections")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_a_socket_is_reached_there() {
        let address = |command| address(command, 7000, Path::new("/d")).unwrap().to_string();
        assert_eq!(address("redis-server --port 0 --unixsocket {socket}"), "unix:/d/socket");
        assert_eq!(address("redis-server --port {port} --unixsocket {socket}"), "unix:/d/socket");
        assert_eq!(address("redis-server --port {port} --dir {data}"), "tcp:127.0.0.1:7000");
    }
}
