//! What the screen shows of a load: one page, of 80 columns and 24 rows at best.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};

use crate::trail::{Latencies, Picture};
use engine::latency::LatencyUs;

const NOTHING_YET: &str = "no load yet: connecting, or filling the server";
const KEYS: &str = "q or Ctrl-C: end the run, and print what it has counted";

/// Draw `picture`; none before a load began.
pub fn draw(frame: &mut Frame, picture: Option<&Picture>) {
    let Some(picture) = picture else {
        let lines = vec![Line::from(NOTHING_YET), Line::from(KEYS)];
        return frame.render_widget(Paragraph::new(lines), frame.area());
    };
    let latencies = latencies(&picture.latencies);
    let heights = [
        Constraint::Length(4),
        Constraint::Length(latencies.len() as u16 + 1),
        Constraint::Min(3),
        Constraint::Length(1),
    ];
    let [head, table, bars, foot] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(Paragraph::new(summary(picture)), head);
    frame.render_widget(Paragraph::new(latencies), table);
    let columns = usize::from(bars.width.saturating_sub(2));
    let latest = &picture.bars[picture.bars.len().saturating_sub(columns)..];
    let highest = latest.iter().max().copied().unwrap_or(0);
    let title = format!(" requests/s, four bars a second, the highest {highest} ");
    let block = Block::default().borders(Borders::ALL).title(title);
    frame.render_widget(Sparkline::default().block(block).data(latest.iter().copied()), bars);
    frame.render_widget(Paragraph::new(KEYS), foot);
}

fn summary(picture: &Picture) -> Vec<Line<'static>> {
    let part = if picture.is_warming { "warm-up" } else { "window" };
    let left = picture.left_s.map_or("an unknown time".to_owned(), |left_s| format!("{left_s:.1} s"));
    let first = format!("{}: {:.1} s of the {part}, {left} left", picture.test, picture.elapsed_s);
    let errors = match picture.errors {
        0 => Style::default(),
        _ => Style::default().fg(Color::Red).add_modifier(Modifier::BOLD),
    };
    vec![
        Line::styled(first, Style::default().add_modifier(Modifier::BOLD)),
        Line::from(format!(
            "requests/s: {:.0} now, {:.0} in all; requests: {}; MB/s: {:.1}",
            picture.rate_now,
            picture.rate_in_all,
            picture.requests,
            picture.bytes_now / 1e6
        )),
        Line::styled(
            format!(
                "errors: {}; connections: {}; reconnects: {}",
                picture.errors, picture.connections, picture.reconnects
            ),
            errors,
        ),
    ]
}

/// The rows of the table: two headings, and a row for each command; only the total, if there is one command.
fn latencies(rows: &[Latencies]) -> Vec<Line<'static>> {
    let heads = ["p50", "p99", "p99.9", "max"].map(|head| format!("{head:>8}")).concat();
    let mut lines = vec![
        Line::from(format!("{:16}{:>32}{:>32}", "latency, us", "in the last second", "in all")),
        Line::from(format!("{:16}{heads}{heads}", "command")),
    ];
    lines.extend(rows.iter().map(|row| {
        let name: String = row.name.chars().take(15).collect();
        Line::from(format!("{name:<16}{}{}", cells(&row.last_second), cells(&row.in_all)))
    }));
    lines
}

fn cells(latency: &LatencyUs) -> String {
    let cell = |us: f64| match us < 100_000.0 {
        true => format!("{us:>8.1}"),
        false => format!("{us:>8.0}"),
    };
    [latency.p50, latency.p99, latency.p99_9, latency.max].map(cell).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::histogram::Histogram;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// The rows of a screen of that size.
    fn rows(picture: Option<&Picture>, (columns, rows): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, picture)).unwrap();
        let cells = terminal.backend().buffer().content().chunks(usize::from(columns).max(1));
        cells.map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    fn picture() -> Picture {
        let mut latency = Histogram::default();
        (1..=1000).for_each(|us| latency.record(us * 1000, 1));
        let latencies = |name: &str, us| Latencies {
            name: name.to_owned(),
            last_second: us,
            in_all: LatencyUs::of(&latency),
        };
        let slow = LatencyUs { max: 1_234_567.8, ..LatencyUs::of(&latency) };
        Picture {
            test: "get:9+set:1".to_owned(),
            is_warming: false,
            elapsed_s: 3.25,
            left_s: Some(1.75),
            requests: 384_003,
            rate_now: 123_456.0,
            rate_in_all: 120_001.0,
            bytes_now: 12_300_000.0,
            errors: 3,
            connections: 50,
            reconnects: 2,
            latencies: vec![latencies("all", LatencyUs::of(&latency)), latencies("set", slow)],
            bars: (0..500).collect(),
        }
    }

    #[test]
    fn a_page_has_rates_latencies_counts_and_bars() {
        let rows = rows(Some(&picture()), (80, 24));
        assert_eq!(rows[0].trim_end(), "get:9+set:1: 3.2 s of the window, 1.8 s left");
        let rates = "requests/s: 123456 now, 120001 in all; requests: 384003; MB/s: 12.3";
        assert_eq!(rows[1].trim_end(), rates);
        assert_eq!(rows[2].trim_end(), "errors: 3; connections: 50; reconnects: 2");
        let words: Vec<&str> = rows[7].split_whitespace().collect();
        assert_eq!((words[0], words[4], words.len()), ("set", "1234568", 9), "{rows:?}");
        assert!(rows[9].contains("the highest 499"), "{rows:?}");
        assert!(rows[21].matches('█').count() > 70, "{rows:?}");
        assert_eq!(rows[23].trim_end(), KEYS);
    }

    #[test]
    fn no_size_is_too_small() {
        for size in [(0, 0), (1, 1), (10, 5), (300, 100)] {
            rows(Some(&picture()), size);
        }
        assert_eq!(rows(None, (60, 2))[0].trim_end(), NOTHING_YET);
        let warming = Picture { is_warming: true, left_s: None, bars: Vec::new(), ..picture() };
        let first = &rows(Some(&warming), (80, 24))[0];
        assert!(first.contains("of the warm-up, an unknown time left"), "{first}");
    }
}
