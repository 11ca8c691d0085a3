//! Numbers as people write them: with a unit behind them.

/// Units of counts and rates.
pub const THOUSANDS: [(&str, f64); 3] = [("k", 1e3), ("m", 1e6), ("g", 1e9)];
/// Units of bytes, as in redis.conf: 1k is 1000, 1kb is 1024.
pub const BYTES: [(&str, f64); 7] = [
    ("kb", 1024.0),
    ("mb", 1_048_576.0),
    ("gb", 1_073_741_824.0),
    ("b", 1.0),
    ("k", 1e3),
    ("m", 1e6),
    ("g", 1e9),
];
/// Units of time, in seconds.
pub const TIMES: [(&str, f64); 6] =
    [("us", 1e-6), ("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// `text` as a number, or as one followed by one of `units`, which are tried in their order.
pub fn measured(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let lower = text.to_lowercase();
    let unit = units.iter().find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, *factor)));
    match unit {
        // `inf` and `nan` end with no unit, but a number before a unit has to be one.
        Some((number, factor)) => number.parse().ok().filter(|it: &f64| it.is_finite()).map(|it| it * factor),
        None => lower.parse().ok(),
    }
}
