//! A server that answers PING and remembers when.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use machine::clock;

/// The length of a PING.
const REQUEST: usize = b"*1\r\n$4\r\nPING\r\n".len();

/// Requests that were read together, ns on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Answered {
    pub read_at: u64,
    /// Shortly before the answers were sent.
    pub answered_at: u64,
    pub count: u64,
}

pub struct PingServer {
    pub port: String,
    requests: Arc<Mutex<Vec<Answered>>>,
}

impl PingServer {
    /// It takes 0 to 3 ms for an answer.
    pub fn slow() -> PingServer {
        PingServer::until(u64::MAX)
    }

    /// The same, but it closes every connection when it has answered `most` requests.
    pub fn until(most: u64) -> PingServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (shared, left) = (requests.clone(), Arc::new(AtomicU64::new(most)));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, left) = (shared.clone(), left.clone());
                thread::spawn(move || converse(stream, &shared, &left));
            }
        });
        PingServer { port, requests }
    }

    pub fn requests(&self) -> Vec<Answered> {
        self.requests.lock().unwrap().clone()
    }
}

fn converse(mut stream: TcpStream, requests: &Mutex<Vec<Answered>>, left: &AtomicU64) -> Option<()> {
    let (mut chunk, mut pending) = (vec![0; 1 << 16], 0);
    stream.set_nodelay(true).ok()?;
    loop {
        pending += stream.read(&mut chunk).ok().filter(|received| *received > 0)?;
        let (read_at, count) = (clock::now(), (pending / REQUEST) as u64);
        pending %= REQUEST;
        if left.fetch_sub(count, Ordering::Relaxed) < count {
            left.store(0, Ordering::Relaxed);
            return None;
        }
        thread::sleep(Duration::from_micros(read_at % 3000));
        requests.lock().unwrap().push(Answered { read_at, answered_at: clock::now(), count });
        stream.write_all(&b"+PONG\r\n".repeat(count as usize)).ok()?;
    }
}
