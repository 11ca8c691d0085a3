//! What counts when: the meter with moments of the test's own making.

use engine::connection::SendTimes;
use engine::histogram::Histogram;
use engine::meter::Meter;
use engine::record::Record;
use engine::schedule::ArrivalProcess;
use engine::schedule::Arrivals;
use engine::stage::Stage;
use protocol::replies::Tally;

fn replies(count: u64) -> Tally {
    Tally { replies: count, ..Tally::default() }
}

/// The record of replies that come at `moments` (moment, count), each sent 5 ns before.
fn record(stage: Stage, slice_ns: u64, moments: &[(u64, u64)]) -> Record {
    let mut meter = Meter::new(stage.span(1000), slice_ns, None);
    meter.advance(1000).unwrap();
    for &(moment, count) in moments {
        meter.count(moment, SendTimes::at(moment - 5), replies(count)).unwrap();
    }
    meter.finish(moments.last().map_or(1000, |last| last.0)).unwrap()
}

#[test]
fn only_replies_inside_the_window_count() {
    let stage = Stage::Timed { warmup_ns: 100, window_ns: 200 };
    let moments = [(1050, 7), (1099, 7), (1100, 1), (1299, 2), (1300, 4), (1350, 8)];
    let record = record(stage, 100, &moments);
    assert_eq!(record.inside.replies, 3);
    assert_eq!(record.unfinished, 12);
    assert_eq!(record.slices, [1, 2]);
    // Latency has what was counted, and what the end of the window cut off.
    assert_eq!(record.latency.count(), 15);
    assert_eq!((record.opened_at, record.closed_at), (1100, 1300));
}

#[test]
fn a_silent_slice_is_a_zero() {
    let stage = Stage::Timed { warmup_ns: 0, window_ns: 450 };
    let record = record(stage, 100, &[(1000, 1), (1399, 2), (1449, 3), (1500, 1)]);
    assert_eq!(record.slices, [1, 0, 0, 2, 3]);
    assert_eq!(record.inside.replies, 6);
}

#[test]
fn a_count_ends_with_its_last_reply() {
    let record = record(Stage::Exactly { requests: 6 }, 100, &[(1001, 1), (1150, 2), (1160, 3)]);
    assert_eq!((record.inside.replies, record.unfinished), (6, 0));
    assert_eq!(record.slices, [1, 5]);
    assert_eq!((record.opened_at, record.closed_at), (1000, 1160));
}

#[test]
fn a_warm_up_counts_nothing() {
    let record = record(Stage::WarmUp { ns: 100 }, 10, &[(1001, 1), (1099, 2), (1150, 3)]);
    assert_eq!(record.inside.replies, 0);
    assert!(record.slices.is_empty());
}

#[test]
fn errors_and_nulls_count_only_inside() {
    let mut meter = Meter::new(Stage::Timed { warmup_ns: 10, window_ns: 10 }.span(1000), 5, None);
    let failed = |text: &str| Tally {
        replies: 1,
        nulls: 1,
        errors: 1,
        first_error: Some(text.into()),
        ..Tally::default()
    };
    meter.count(1005, SendTimes::at(1000), failed("early")).unwrap();
    meter.count(1012, SendTimes::at(1006), failed("inside")).unwrap();
    meter.count(1013, SendTimes::at(1006), failed("second")).unwrap();
    meter.count(1025, SendTimes::at(1013), failed("late")).unwrap();
    let record = meter.finish(1025).unwrap();
    let inside =
        Tally { replies: 2, nulls: 2, errors: 2, first_error: Some("inside".into()), ..Tally::default() };
    assert_eq!(record.inside, inside);
}

#[test]
fn an_open_loop_counts_from_the_intended_start_and_from_the_sending() {
    let arrivals = Arrivals { rate: 1e6, process: ArrivalProcess::Fixed, series: 0, ramp: None };
    let stage = Stage::Open { warmup_ns: 0, window_ns: 1000, arrivals };
    let span = stage.span(0);
    let mut meter = Meter::new(span, 100, None);
    let at = |ns| span.begins_at + ns;
    for (due, sent, answered) in [(0, 0, 100), (10, 100, 210), (20, 210, 500)] {
        let begin = SendTimes { due_at: at(due), sent_at: at(sent) };
        meter.count(at(answered), begin, replies(1)).unwrap();
    }
    let record = meter.finish(at(1000)).unwrap();
    // All are below 512 ns, where the histogram is exact.
    let spread = |of: &Histogram| (of.min(), of.quantile(0.5), of.max(), of.sum());
    assert_eq!(spread(&record.latency), (100, 200, 480, 780));
    assert_eq!(spread(&record.service), (100, 110, 290, 500));
}
