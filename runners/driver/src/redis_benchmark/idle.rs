//! `-I`: connections that are opened and held.

use std::io::IsTerminal;

use super::options::Options;
use super::report::print;
use crate::channel::Channel;
use crate::failure::Failure;
use crate::job::Node;
use crate::sys::{self, Epoll};

/// The number of clients is shown this often.
const SHOWN_EVERY_MS: i32 = 250;

/// Open the connections and wait until a server closes one.
pub fn hold(options: &Options, nodes: &[Node]) -> Result<(), Failure> {
    sys::raise_file_limit();
    let broken =
        |error| Failure::run(format!("a system call failed ({error})"), "check limits of files and memory");
    let mut epoll = Epoll::new(64).map_err(broken)?;
    let mut channels = Vec::with_capacity(options.clients);
    for index in 0..options.clients {
        let channel = nodes[index % nodes.len()].target.connect()?;
        sys::set_nonblocking(channel.socket()).map_err(broken)?;
        epoll.add(channel.socket(), index).map_err(broken)?;
        channels.push(channel);
    }
    print(&format!(
        "Creating {} idle connections and waiting forever (Ctrl+C when done)\n",
        options.clients
    ))?;
    let shown = std::io::stdout().is_terminal();
    loop {
        for event in 0..epoll.wait(SHOWN_EVERY_MS).map_err(broken)? {
            let index = epoll.ready(event).token;
            check(&mut channels[index], index)?;
        }
        if shown {
            print(&format!("clients: {}\r", channels.len()))?;
        }
    }
}

/// A server may push; what it says is not looked at.
fn check(channel: &mut Channel, index: usize) -> Result<(), Failure> {
    let closed =
        |cause: String| Failure::run(cause, "look at the server's log, its timeout and its limit of clients");
    match channel.recv(&mut [0; 4096]) {
        Ok(0) => Err(closed(format!("the server closed idle connection {index}"))),
        Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => {
            Err(closed(format!("idle connection {index} broke ({error})")))
        }
        _ => Ok(()),
    }
}
