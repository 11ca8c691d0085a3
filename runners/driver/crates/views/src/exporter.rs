//! Metrics over HTTP, for a Prometheus that asks for them: one small request at a time, on a thread of its own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::metrics;
use engine::scoreboard::Scoreboards;
use text::failure::Failure;

/// A request that is longer is refused.
const LONGEST_REQUEST: usize = 8 * 1024;
/// All of a request must come within this time, and its answer be taken within as much.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Answer at `address`, with the metrics of `scoreboards`, until the program ends. A failure when that is impossible.
pub fn begin(address: SocketAddr, scoreboards: Arc<Scoreboards>) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).map_err(|error| {
        Failure::run(
            format!("cannot serve metrics at {address} ({error})"),
            "give --prometheus an address of this machine with a port that is free",
        )
    })?;
    thread::spawn(move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => serve(stream, &scoreboards),
                // Too many open files, perhaps: later there may be one.
                Err(_) => thread::sleep(TIMEOUT),
            }
        }
    });
    Ok(())
}

fn serve(mut stream: TcpStream, scoreboards: &Scoreboards) {
    // Whoever asks and goes away does the load no harm.
    let _ = converse(&mut stream, scoreboards);
    // A thread of the load that began meanwhile has a copy of the descriptor, so that a close alone would end nothing.
    let _ = stream.shutdown(Shutdown::Both);
}

fn converse(stream: &mut TcpStream, scoreboards: &Scoreboards) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    let answer = match request(stream)? {
        Some(head) => answer(&head, scoreboards),
        None => response("431 Request Header Fields Too Large", "text/plain", "the request is too long\n"),
    };
    stream.write_all(answer.as_bytes())
}

/// The head of the request; none when it is too long.
fn request(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let (began, mut head, mut chunk) = (Instant::now(), Vec::new(), [0; 1024]);
    loop {
        let left = TIMEOUT.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        let received = stream.read(&mut chunk)?;
        head.extend_from_slice(&chunk[..received]);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
        if head.len() > LONGEST_REQUEST {
            return Ok(None);
        }
        if received == 0 || began.elapsed() > TIMEOUT {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn answer(head: &str, scoreboards: &Scoreboards) -> String {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET", "/metrics") => response("200 OK", metrics::CONTENT_TYPE, &text(scoreboards)),
        ("GET", _) => response("404 Not Found", "text/plain", "metrics are at /metrics\n"),
        _ => response("405 Method Not Allowed\r\nAllow: GET", "text/plain", "only GET is answered\n"),
    }
}

fn text(scoreboards: &Scoreboards) -> String {
    let boards = scoreboards.all();
    let scores = boards.iter().filter_map(|board| Some((&**board, board.score()?.1)));
    metrics::text(&scores.collect::<Vec<_>>())
}

fn response(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn an_answer_ends_although_a_thread_holds_a_copy_of_the_connection() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let (stream, _) = listener.accept().unwrap();
        let _copy = stream.try_clone().unwrap();
        serve(stream, &Scoreboards::default());
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    }
}
