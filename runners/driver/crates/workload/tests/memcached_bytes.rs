//! The commands of the default tests, byte for byte, as the protocol text of memcached writes them.

use protocol::template::Placeholders;
use protocol::template::Value;
use workload::memcached::suite;
use workload::memcached::suite::TESTS;

/// `TITLE`, then the request with its key numbers as zeros and a value of three bytes.
const DEFAULTS: [(&str, &str); 20] = [
    ("MN", "mn\r\n"),
    ("VERSION", "version\r\n"),
    ("SET", "set key:000000000000 0 0 3\r\nVXK\r\n"),
    ("GET (hit)", "get key:000000000000\r\n"),
    ("GET (miss)", "get absent:000000000000\r\n"),
    ("GETS (10 keys)", "gets{10* key:000000000000}\r\n"),
    ("GETS (100 keys)", "gets{100* key:000000000000}\r\n"),
    ("ADD", "add new:000000000000 0 0 3\r\nVXK\r\n"),
    ("REPLACE", "replace key:000000000000 0 0 3\r\nVXK\r\n"),
    ("APPEND (0 bytes)", "append key:000000000000 0 0 0\r\n\r\n"),
    ("CAS (refused)", "cas key:000000000000 0 0 3 0\r\nVXK\r\n"),
    ("INCR", "incr counter:000000000000 1\r\n"),
    ("TOUCH", "touch key:000000000000 3600\r\n"),
    ("GAT", "gat 3600 key:000000000000\r\n"),
    ("DELETE", "delete doomed:000000000000\r\n"),
    ("MS", "ms key:000000000000 3\r\nVXK\r\n"),
    ("MG", "mg key:000000000000 v\r\n"),
    ("MG (10 keys, quiet)", "{10*mg key:000000000000 v q\r\n}mn\r\n"),
    ("MD", "md doomed:000000000000\r\n"),
    ("MA", "ma counter:000000000000\r\n"),
];

const EXTRAS: [(&str, &str); 27] = [
    ("get_10", "get{10* key:000000000000}\r\n"),
    ("get_100", "get{100* key:000000000000}\r\n"),
    ("gets", "gets key:000000000000\r\n"),
    ("prepend", "prepend key:000000000000 0 0 0\r\n\r\n"),
    ("decr", "decr counter:000000000000 1\r\n"),
    ("gat_10", "gat 3600{10* key:000000000000}\r\n"),
    ("gat_100", "gat 3600{100* key:000000000000}\r\n"),
    ("gats", "gats 3600 key:000000000000\r\n"),
    ("gats_10", "gats 3600{10* key:000000000000}\r\n"),
    ("gats_100", "gats 3600{100* key:000000000000}\r\n"),
    ("ms_base64", "ms a2V5000000000000 3 b T3600 O1\r\nVXK\r\n"),
    ("ms_quiet", "{10*ms key:000000000000 3 q\r\nVXK\r\n}mn\r\n"),
    ("mg_flags", "mg key:000000000000 v f s t O1\r\n"),
    ("mg_base64", "mg a2V5000000000000 b v\r\n"),
    ("mg_touch", "mg key:000000000000 T3600\r\n"),
    ("ma_value", "ma counter:000000000000 v\r\n"),
    ("ping", "mn\r\n"),
    ("set_noreply", "{10*set key:000000000000 0 0 3 noreply\r\nVXK\r\n}mn\r\n"),
    ("add_noreply", "{10*add new#:000000000000 0 0 3 noreply\r\nVXK\r\n}mn\r\n"),
    ("replace_noreply", "{10*replace key:000000000000 0 0 3 noreply\r\nVXK\r\n}mn\r\n"),
    ("append_noreply", "{10*append key:000000000000 0 0 0 noreply\r\n\r\n}mn\r\n"),
    ("prepend_noreply", "{10*prepend key:000000000000 0 0 0 noreply\r\n\r\n}mn\r\n"),
    ("cas_noreply", "{10*cas key:000000000000 0 0 3 0 noreply\r\nVXK\r\n}mn\r\n"),
    ("incr_noreply", "{10*incr counter:000000000000 1 noreply\r\n}mn\r\n"),
    ("decr_noreply", "{10*decr counter:000000000000 1 noreply\r\n}mn\r\n"),
    ("touch_noreply", "{10*touch key:000000000000 3600 noreply\r\n}mn\r\n"),
    ("delete_noreply", "{10*delete doomed#:000000000000 noreply\r\n}mn\r\n"),
];

/// `{10*text}` is ten times text, in which `#` counts them.
fn expanded(text: &str) -> String {
    let Some((head, rest)) = text.split_once('{') else { return text.to_owned() };
    let (count, rest) = rest.split_once('*').unwrap();
    let (each, tail) = rest.split_once('}').unwrap();
    let each = (0..count.parse().unwrap()).map(|at: u64| each.replace('#', &at.to_string()));
    head.to_owned() + &each.collect::<String>() + tail
}

fn places() -> Placeholders {
    Placeholders { value: Value::Same(b"VXK".to_vec()), ..Placeholders::default() }
}

fn sent(test: &suite::Test) -> String {
    String::from_utf8(test.command(&places()).fixed.bytes).unwrap()
}

#[test]
fn default_tests_are_those_of_the_protocol_in_order() {
    let tests: Vec<(&str, String)> = suite::default_tests().map(|test| (test.title, sent(test))).collect();
    let expected: Vec<(&str, String)> = DEFAULTS.map(|(title, text)| (title, expanded(text))).to_vec();
    assert_eq!(tests, expected);
}

#[test]
fn tests_that_are_named_are_those_of_the_protocol() {
    for (name, text) in EXTRAS {
        assert_eq!(sent(suite::find_test(name).unwrap()), expanded(text), "{name}");
    }
    assert_eq!(TESTS.len(), DEFAULTS.len() + EXTRAS.len() - 1);
}
