//! What became of a recording.

use serde::Serialize;

use super::reader::Reading;
use super::setting::{Setting, Speed};
use recording::format::Format;
use recording::omission::Omitted;
use text::units::{per, round};

/// What became of a recording: `read` requests are `sent`, `unsent` or left out.
#[derive(Debug, Serialize)]
pub struct Replayed {
    pub file: String,
    pub digest: Option<String>,
    pub format: Format,
    pub speed: Speed,
    pub bytes: u64,
    pub read: u64,
    pub sent: u64,
    /// Read and not sent, as the run ended before.
    pub unsent: u64,
    pub left_out: Vec<Omitted>,
    /// Clients that were told apart, up to 65,536; none when the recording has none.
    pub clients: Option<usize>,
    /// From the first request that was read to the last, by their times; none when these have no part in it.
    pub recorded_s: Option<f64>,
    /// Requests whose time was before that of one before them: they were due with that one.
    pub backward: Option<Backward>,
    /// CPU time of the thread that read, beside that of the threads that sent.
    pub reader_cpu_ns_per_request: f64,
}

#[derive(Debug, Serialize)]
pub struct Backward {
    pub count: u64,
    pub first: String,
    pub most_s: f64,
}

impl Replayed {
    pub fn of(format: Format, setting: &Setting, reading: &Reading, sent: (u64, u64)) -> Replayed {
        let (sent, unsent) = sent;
        let backward = &reading.backward;
        Replayed {
            file: setting.file.clone(),
            digest: setting.digest.clone(),
            format,
            speed: setting.speed,
            bytes: reading.bytes,
            read: reading.requests,
            sent,
            // What never reached a thread was not sent, either.
            unsent: unsent.max(reading.requests.saturating_sub(sent + reading.omissions.total())),
            left_out: reading.omissions.report(),
            clients: reading.clients,
            recorded_s: setting.speed.times().map(|_| round(reading.recorded_ns as f64 / 1e9, 6)),
            backward: backward.first.clone().map(|first| Backward {
                count: backward.count,
                first,
                most_s: round(backward.most_ns as f64 / 1e9, 6),
            }),
            reader_cpu_ns_per_request: round(per(reading.cpu_ns as f64, reading.requests as f64), 1),
        }
    }

    /// One line per fact for those who read.
    pub fn notes(&self) -> Vec<String> {
        let mut notes =
            vec![format!("{} of {} recorded requests sent, {} unsent", self.sent, self.read, self.unsent)];
        notes.extend(
            self.left_out
                .iter()
                .map(|part| format!("{} left out ({} first): {}", part.count, part.first, part.reason)),
        );
        notes.extend(self.backward.iter().map(|backward| {
            format!(
                "times run backwards {} times, by up to {} s, first at {}: sent in the order of the file",
                backward.count, backward.most_s, backward.first
            )
        }));
        notes
    }
}
