//! Metrics to a StatsD server, over UDP: what gets lost is not sent again.

use std::net::UdpSocket;

use text::failure::Failure;

pub struct Statsd {
    socket: UdpSocket,
    /// Before each name; ends with a dot.
    prefix: String,
}

impl Statsd {
    /// Metrics to `host`, named `prefix.label.NAME`.
    pub fn connect(host: &str, port: u16, prefix: &str, label: &str) -> Result<Statsd, Failure> {
        let local = if host.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let socket = UdpSocket::bind(local).and_then(|socket| {
            socket.connect((host, port))?;
            socket.set_nonblocking(true).map(|()| socket)
        });
        let socket = socket.map_err(|error| {
            Failure::run(format!("cannot send to StatsD at {host}:{port} ({error})"), "correct --statsd-host")
        })?;
        let parts = [name(prefix, "_-."), name(label, "_-")].into_iter().filter(|part| !part.is_empty());
        Ok(Statsd { socket, prefix: parts.map(|part| part + ".").collect() })
    }

    pub fn gauge(&self, name: &str, value: f64) {
        self.send(&format!("{}{name}:{value}|g", self.prefix));
    }

    /// In ms.
    pub fn timing(&self, name: &str, ms: f64) {
        self.send(&format!("{}{name}:{ms:.3}|ms", self.prefix));
    }

    fn send(&self, metric: &str) {
        // A server that is not there is no reason to end a measurement.
        let _ = self.socket.send(metric.as_bytes());
    }
}

/// `text` with an underscore for all but letters, digits and `others`.
fn name(text: &str, others: &str) -> String {
    let fits = |character: char| character.is_ascii_alphanumeric() || others.contains(character);
    text.chars().map(|character| if fits(character) { character } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_a_prefix_and_a_type() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let statsd = Statsd::connect("127.0.0.1", port, "my.bench", "a run").unwrap();
        let mut buffer = [0; 100];
        let mut received = || {
            let length = server.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        statsd.gauge("ops_sec", 12.0);
        assert_eq!(received(), "my.bench.a_run.ops_sec:12|g");
        statsd.timing("latency_ms", 0.25);
        assert_eq!(received(), "my.bench.a_run.latency_ms:0.250|ms");
    }
}
