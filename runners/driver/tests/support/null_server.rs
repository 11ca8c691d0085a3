//! A server that does next to nothing: one thread that answers each request with the same bytes. What a client draws
//! from it is what the client and the kernel can do.
//!
//! `null_server resp|memcached PORT|PATH [WORK]`: on loopback, or on a unix socket. Ends with its standard input. With WORK
//! it spends so many rounds of a loop on each request: a server that is slower by a known amount.
//!
//! It does not parse. A request is counted by a byte that every request has once: the `*` of RESP, the line feed of a
//! memcached text command. Keys must not hold it.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::thread;

use machine::epoll::Epoll;

const BUFFER_BYTES: usize = 64 * 1024;
const REPLIES: usize = 1024;
/// Connections are numbered from 0.
const LISTENER: usize = usize::MAX;

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub fn bind(address: &str) -> io::Result<Listener> {
        match address.parse() {
            Ok(port) => TcpListener::bind(("127.0.0.1", port)).map(Listener::Tcp),
            Err(_) => UnixListener::bind(address).map(Listener::Unix),
        }
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
            Listener::Unix(listener) => Ok(listener.accept()?.0.into()),
        }
    }

    fn register(&self, epoll: &Epoll) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => epoll.add(listener.as_fd(), LISTENER),
            Listener::Unix(listener) => epoll.add(listener.as_fd(), LISTENER),
        }
    }
}

/// What the server knows of a protocol.
pub struct Manner {
    mark: u8,
    replies: Vec<u8>,
    reply_bytes: usize,
    /// Rounds of the loop per request.
    work: u64,
}

impl Manner {
    /// The answers to GET of a value of three bytes.
    pub fn of(protocol: &str) -> Option<Manner> {
        let (mark, reply): (u8, &[u8]) = match protocol {
            "resp" => (b'*', b"$3\r\nxxx\r\n"),
            "memcached" => (b'\n', b"VALUE key 0 3\r\nxxx\r\nEND\r\n"),
            _ => return None,
        };
        Some(Manner { mark, replies: reply.repeat(REPLIES), reply_bytes: reply.len(), work: 0 })
    }

    /// The same with `work` rounds of a loop for each request.
    pub fn working(self, work: u64) -> Manner {
        Manner { work, ..self }
    }

    /// Answer what has arrived; whether the client is still there. The sockets block, and the client always reads.
    fn answer(&self, socket: &mut File, buffer: &mut [u8]) -> io::Result<bool> {
        let received = socket.read(buffer)?;
        let mut requests = buffer[..received].iter().filter(|byte| **byte == self.mark).count();
        (0..requests as u64 * self.work).for_each(|round| _ = black_box(round));
        while requests > 0 {
            let now = requests.min(REPLIES);
            socket.write_all(&self.replies[..now * self.reply_bytes])?;
            requests -= now;
        }
        Ok(received > 0)
    }
}

pub fn serve(listener: &Listener, manner: &Manner) -> io::Result<()> {
    let mut epoll = Epoll::new(512)?;
    let mut sockets: Vec<Option<File>> = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    listener.register(&epoll)?;
    loop {
        for event in 0..epoll.wait(-1)? {
            match epoll.ready(event).token {
                LISTENER => {
                    let socket = listener.accept()?;
                    epoll.add(socket.as_fd(), sockets.len())?;
                    sockets.push(Some(socket.into()));
                }
                token => {
                    let there = sockets[token]
                        .as_mut()
                        .is_some_and(|it| manner.answer(it, &mut buffer).unwrap_or(false));
                    if !there {
                        sockets[token] = None;
                    }
                }
            }
        }
    }
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = || io::Error::other("resp|memcached PORT|PATH [WORK]");
    let [protocol, address, work @ ..] = words.as_slice() else { return Err(usage()) };
    let work = work.first().map_or(Ok(0), |work| work.parse().map_err(|_| usage()))?;
    let manner = Manner::of(protocol).ok_or_else(usage)?.working(work);
    let listener = Listener::bind(address)?;
    machine::process::raise_file_limit(0);
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    serve(&listener, &manner)
}
