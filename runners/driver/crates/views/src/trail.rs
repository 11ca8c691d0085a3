//! The last second of a load, and its whole window, as a view shows them.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::histogram::{Gain, Histogram};
use engine::latency::LatencyUs;
use engine::scoreboard::{Score, Scoreboard};
use engine::stage::Span;
use machine::clock;
use text::units::{per, seconds};

/// Looks at a load are this many in a second.
pub const LOOKS_PER_SECOND: usize = 4;
/// Bars of rates that are remembered: more than a screen has columns.
const MOST_BARS: usize = 400;

/// What a load was at the moments at which it was looked at.
pub struct Trail {
    scoreboard: Arc<Scoreboard>,
    /// Of the stage that was seen last.
    begins_at: u64,
    score: Score,
    /// Those of the last second.
    looks: VecDeque<Look>,
    bars: VecDeque<u64>,
}

/// What came between a look and the one before it.
struct Look {
    ns: u64,
    replies: u64,
    bytes: u64,
    /// Latencies of all requests, then those of each command.
    gains: Vec<Gain>,
}

/// How a load is now.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub test: String,
    pub is_warming: bool,
    /// Since the begin of the warm-up or of the window.
    pub elapsed_s: f64,
    /// Until its end; none when nothing tells.
    pub left_s: Option<f64>,
    pub requests: u64,
    /// Requests per second in the last second and in the window so far; bytes per second, in the last one.
    pub rate_now: f64,
    pub rate_in_all: f64,
    pub bytes_now: f64,
    pub errors: u64,
    pub connections: u64,
    pub reconnects: u64,
    pub latencies: Vec<Latencies>,
    /// Requests per second at each look, the latest last.
    pub bars: Vec<u64>,
}

/// The latencies of a command, or of all.
#[derive(Debug, Clone, PartialEq)]
pub struct Latencies {
    pub name: String,
    pub last_second: LatencyUs,
    pub in_all: LatencyUs,
}

impl Trail {
    pub fn new(scoreboard: Arc<Scoreboard>) -> Trail {
        Trail {
            scoreboard,
            begins_at: 0,
            score: Score::default(),
            looks: VecDeque::new(),
            bars: VecDeque::new(),
        }
    }

    pub fn is_of(&self, scoreboard: &Arc<Scoreboard>) -> bool {
        Arc::ptr_eq(&self.scoreboard, scoreboard)
    }

    /// Look at the load now; none before it began.
    pub fn look(&mut self) -> Option<Picture> {
        let (span, score) = self.scoreboard.score()?;
        if span.begins_at != self.begins_at {
            (self.begins_at, self.score) = (span.begins_at, Score::default());
            self.looks.clear();
        }
        if score.at > self.score.at {
            self.add(&span, score);
        }
        Some(self.picture(&span, clock::now()))
    }

    fn add(&mut self, span: &Span, score: Score) {
        let before = &mut self.score;
        before.commands.resize_with(score.commands.len(), Histogram::default);
        let of_commands = score.commands.iter().zip(&mut before.commands);
        let gains = std::iter::once((&score.latency, &mut before.latency)).chain(of_commands);
        let look = Look {
            ns: score.at.min(span.closes_at).saturating_sub(before.at.max(span.counts_from)),
            replies: score.replies - before.replies,
            // Connections that are opened again count anew.
            bytes: if before.at == 0 { 0 } else { score.bytes.saturating_sub(before.bytes) },
            gains: gains.map(|(now, before)| now.gained_since(before)).collect(),
        };
        if look.ns > 0 {
            self.bars.push_back((per(look.replies as f64, seconds(look.ns))).round() as u64);
        }
        self.looks.push_back(look);
        while self.looks.len() > LOOKS_PER_SECOND {
            self.looks.pop_front();
        }
        while self.bars.len() > MOST_BARS {
            self.bars.pop_front();
        }
        self.score = score;
    }

    fn picture(&self, span: &Span, now: u64) -> Picture {
        let score = &self.score;
        let is_warming = now < span.counts_from;
        let (from, to) = match is_warming {
            true => (span.begins_at, span.counts_from.min(span.ends_at)),
            false => (span.counts_from, span.closes_at),
        };
        let counted_s = seconds(score.at.min(span.closes_at).saturating_sub(span.counts_from));
        let rate_in_all = per(score.replies as f64, counted_s);
        let sum = |of: fn(&Look) -> u64| self.looks.iter().map(of).sum::<u64>() as f64;
        let by_requests = || {
            let left = span.requests?.saturating_sub(score.replies);
            (rate_in_all > 0.0).then(|| left as f64 / rate_in_all)
        };
        Picture {
            test: self.scoreboard.test.clone(),
            is_warming,
            elapsed_s: seconds(now.min(to).saturating_sub(from)),
            left_s: if to == u64::MAX { by_requests() } else { Some(seconds(to.saturating_sub(now))) },
            requests: score.replies,
            rate_now: per(sum(|look| look.replies), sum(|look| look.ns) / 1e9),
            rate_in_all,
            bytes_now: per(sum(|look| look.bytes), sum(|look| look.ns) / 1e9),
            errors: score.errors,
            connections: score.connections,
            reconnects: score.reconnects,
            latencies: self.latencies(),
            bars: self.bars.iter().copied().collect(),
        }
    }

    fn latencies(&self) -> Vec<Latencies> {
        let names = std::iter::once("all".to_owned()).chain(self.scoreboard.commands.iter().cloned());
        let histograms = std::iter::once(&self.score.latency).chain(&self.score.commands);
        let row = |(place, (name, in_all)): (usize, (String, &Histogram))| {
            let mut sum = Gain::default();
            let gains = self.looks.iter().filter_map(|look| look.gains.get(place));
            gains.for_each(|gain| sum.merge(gain));
            Latencies { name, last_second: LatencyUs::of(&in_all.part(&sum)), in_all: LatencyUs::of(in_all) }
        };
        names.zip(histograms).enumerate().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stage::Stage;

    const S: u64 = 1_000_000_000;

    /// A trail, and what publishes so many replies of so many ns until a moment.
    fn load(stage: Stage) -> (Trail, Span, impl Fn(u64, u64, u64)) {
        let scoreboard = Arc::new(Scoreboard::new("get", vec!["GET".to_owned(), "SET".to_owned()], 1));
        let span = stage.span(clock::now());
        scoreboard.begin(span);
        let trail = Trail::new(scoreboard.clone());
        let publish = move |after_ns: u64, replies: u64, latency_ns: u64| {
            scoreboard.publish(0, &span, |score| {
                score.at = span.counts_from + after_ns;
                score.replies += replies;
                score.bytes += 10 * replies;
                score.latency.record(latency_ns, replies);
                score.commands.resize_with(2, Histogram::default);
                score.commands[1].record(latency_ns, replies);
            });
        };
        (trail, span, publish)
    }

    #[test]
    fn the_last_second_is_apart_from_the_whole() {
        let (mut trail, span, publish) = load(Stage::Timed { warmup_ns: 0, window_ns: 100 * S });
        for quarter in 1..=8 {
            publish(quarter * S / 4, if quarter > 4 { 3000 } else { 1000 }, quarter * 50);
            trail.look().unwrap();
        }
        let picture = trail.picture(&span, span.begins_at + 2 * S);
        assert_eq!((picture.requests, picture.rate_now, picture.rate_in_all), (16_000, 12_000.0, 8000.0));
        assert_eq!((picture.elapsed_s, picture.left_s, picture.is_warming), (2.0, Some(98.0), false));
        assert_eq!((picture.bars[0], picture.bars[7], picture.bytes_now), (4000, 12_000, 120_000.0));
        let names: Vec<&str> = picture.latencies.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["all", "GET", "SET"]);
        for row in [&picture.latencies[0], &picture.latencies[2]] {
            assert_eq!((row.last_second.p50, row.last_second.max), (0.3, 0.4), "{row:?}");
            assert_eq!((row.in_all.min, row.in_all.max), (0.05, 0.4), "{row:?}");
        }
        assert_eq!(picture.latencies[1].in_all.max, 0.0);
        // Nothing new, nothing more.
        assert_eq!(trail.look().unwrap().bars.len(), 8);
    }

    #[test]
    fn a_count_of_requests_tells_what_is_left_by_their_rate() {
        let (mut trail, span, publish) = load(Stage::Exactly { requests: 5000 });
        assert_eq!(trail.look().unwrap().left_s, None);
        publish(S, 1000, 5);
        trail.look().unwrap();
        let picture = trail.picture(&span, span.begins_at + S);
        assert_eq!((picture.elapsed_s, picture.left_s, picture.rate_now), (1.0, Some(4.0), 1000.0));
    }

    #[test]
    fn a_stage_begins_anew_and_a_warm_up_counts_nothing() {
        let (mut trail, _, publish) = load(Stage::Timed { warmup_ns: 0, window_ns: S });
        publish(S, 1000, 5);
        trail.look().unwrap();
        let span = Stage::Timed { warmup_ns: 3 * S, window_ns: S }.span(clock::now() + 1);
        trail.scoreboard.begin(span);
        let picture = trail.look().unwrap();
        assert_eq!((picture.requests, picture.is_warming, picture.bars.len()), (0, true, 1));
        assert_eq!(trail.picture(&span, span.begins_at + S).left_s, Some(2.0));
    }
}
