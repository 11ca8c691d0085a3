//! The result as a page that stands alone: it loads nothing, and has no scripts.

mod chart;

use crate::document::Document;
use crate::notes;
use crate::result::TestResult;
use chart::ChartAxis;
use engine::histogram::Histogram;

const STYLE: &str = include_str!("style.css");
/// Places of the curve of percentiles at which it is drawn.
const CURVE_POINTS: u32 = 150;
/// A line of more points than it has pixels shows no more.
const MOST_RATES: usize = 700;
/// The curve ends here at the latest: at 99.9999%.
const MOST_NINES: f64 = 6.0;
/// Percentiles that the curve names, with the shares that are above them.
const PERCENTILES: [(&str, f64); 7] = [
    ("50", 0.5),
    ("90", 0.1),
    ("99", 0.01),
    ("99.9", 0.001),
    ("99.99", 0.0001),
    ("99.999", 0.00001),
    ("99.9999", 0.000001),
];
const HEADS: [&str; 11] =
    ["test", "requests", "requests/s", "errors", "p50", "p90", "p99", "p99.9", "max", "client", "server"];

/// The page of `document`.
pub fn render(document: &Document) -> String {
    let names: Vec<&str> = document.tests.iter().map(|test| test.name.as_str()).collect();
    let title = escaped(&format!("speedbench: {} of {}", names.join(", "), document.target.address));
    let cut =
        document.cut_short.as_ref().map(|cut| format!("<p class=\"bad\">{}</p>\n", escaped(&cut.line())));
    let rows: String = document.tests.iter().map(row).collect();
    let heads: String = HEADS.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let tests: String = document.tests.iter().map(test).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{}{}\
         <div class=\"wide\" tabindex=\"0\"><table>\n<caption>Latencies in us; CPU time of client and server in ns per \
         request</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n{tests}{}\
         </main>\n</body>\n</html>\n",
        cut.unwrap_or_default(),
        origin(document),
        command(document),
    )
}

/// When and with what it was measured.
fn origin(document: &Document) -> String {
    let environment = &document.environment;
    let facts = format!(
        "{}; {}; kernel {}; {}; seed {}; speedbench {}",
        document.started_at,
        document.target.protocol,
        environment.kernel,
        environment.cpu_model,
        document.driver.seed,
        document.driver.version
    );
    format!("<p>{}</p>\n", escaped(&facts))
}

fn command(document: &Document) -> String {
    let words = document.driver.argv.join(" ");
    format!("<h2>Command line</h2>\n<pre tabindex=\"0\">{}</pre>\n", escaped(&words))
}

fn row(test: &TestResult) -> String {
    let latency = &test.latency_us;
    let us = |us: f64| format!("{us:.1}");
    let server = test.server_cpu.as_ref().map(|cpu| format!("{:.1}", cpu.ns_per_request));
    let cells = [
        test.requests.to_string(),
        format!("{:.1}", test.throughput_rps),
        test.errors.count.to_string(),
        us(latency.p50),
        us(latency.p90),
        us(latency.p99),
        us(latency.p99_9),
        us(latency.max),
        format!("{:.1}", test.client_cpu.ns_per_request),
        server.unwrap_or_else(|| "–".to_owned()),
    ];
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escaped(&test.name))
}

/// The notes of a test, its curve of percentiles, and its rate over time.
fn test(test: &TestResult) -> String {
    let name = escaped(&test.name);
    let flags = match test.flags.is_empty() {
        true => String::new(),
        false => format!("<p class=\"bad\">Flags: {}</p>\n", escaped(&test.flags.join(", "))),
    };
    let notes: String = notes::of(test).iter().map(|note| format!("<li>{}</li>\n", escaped(note))).collect();
    let notes = if notes.is_empty() { notes } else { format!("<ul>\n{notes}</ul>\n") };
    let clock = notes::clock(&test.mode, test.open.is_some());
    format!(
        "<section>\n<h2>{name}</h2>\n{flags}{notes}<figure><figcaption>Latency, us, by percentile ({clock})</figcaption>\
         {}</figure>\n<figure><figcaption>Requests per second, over time</figcaption>{}</figure>\n</section>\n",
        percentiles(&name, &test.latency),
        rate(&name, test)
    )
}

/// The latency below which each share of the requests is; both axes are logarithmic, the one across in the share above.
fn percentiles(name: &str, latency: &Histogram) -> String {
    let count = latency.count();
    if count == 0 {
        return "<p>No latencies.</p>".to_owned();
    }
    let high = (count as f64).log10().clamp(1.0, MOST_NINES);
    let us_log = |ns: u64| (ns.max(1) as f64 / 1000.0).log10();
    let points: Vec<(f64, f64)> = (0..=CURVE_POINTS)
        .map(|point| f64::from(point) / f64::from(CURVE_POINTS) * high)
        .map(|nines| (nines, us_log(latency.quantile(1.0 - 10f64.powf(-nines)))))
        .collect();
    let (low_us, high_us) = (us_log(latency.min()).floor().max(-2.0), us_log(latency.max()).ceil());
    let decades = low_us as i32..=(high_us as i32).max(low_us as i32 + 1);
    let y = ChartAxis {
        title: String::new(),
        low: low_us,
        high: f64::from(*decades.end()),
        ticks: decades.map(|power| (f64::from(power), chart::short(10f64.powi(power)))).collect(),
    };
    let marks = PERCENTILES.iter().map(|(percent, above)| (-above.log10(), (*percent).to_owned()));
    let ticks = marks.filter(|(nines, _)| *nines <= high + 1e-9).collect();
    let x = ChartAxis { title: "percent of the requests, at most so long".to_owned(), low: 0.0, high, ticks };
    chart::line(&format!("{name}: latency by percentile"), &x, &y, &points)
}

/// The rate of each slice, or of some together; a last one that is shorter than the others is left out.
fn rate(name: &str, test: &TestResult) -> String {
    let width_s = test.slices.width_ms as f64 / 1000.0;
    let count = ((test.window_s / width_s + 1e-6) as usize).min(test.slices.requests.len());
    if count == 0 {
        return "<p>The window had no whole slice.</p>".to_owned();
    }
    let each = count.div_ceil(MOST_RATES);
    let point = |(place, slices): (usize, &[u64])| {
        let seconds = slices.len() as f64 * width_s;
        let begin = (place * each) as f64 * width_s;
        (begin + seconds / 2.0, slices.iter().sum::<u64>() as f64 / seconds)
    };
    let points: Vec<(f64, f64)> = test.slices.requests[..count].chunks(each).enumerate().map(point).collect();
    let highest = points.iter().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let mut x = ChartAxis::even("s", test.window_s, 8.0);
    x.high = test.window_s;
    x.ticks.retain(|(at, _)| *at <= test.window_s);
    chart::line(&format!("{name}: requests per second"), &x, &ChartAxis::even("", highest, 4.0), &points)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
