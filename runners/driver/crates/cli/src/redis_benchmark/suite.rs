//! The default tests: titles, names for -t, and commands, in the order in which they run.

pub struct Test {
    pub title: &'static str,
    /// The names by which -t selects it.
    pub names: &'static [&'static str],
    /// Words separated by spaces. `D` is the value, `T` the hash tag with its colon in a cluster, `S` a score,
    /// `E` the element that has it.
    pub words: &'static str,
    /// Which programs run it when -t does not name it.
    pub runs_in: RunsIn,
}

/// Which programs run a test when -t does not name it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RunsIn {
    All,
    /// redis-benchmark from this version on, and valkey-benchmark.
    Since(Version),
    Valkey,
}

/// Major and minor number of a version of redis-benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

/// The versions that `--as` knows; the last is the one that is stood in for unless another is asked for.
pub const VERSIONS: [Version; 4] = [Version(7, 0), Version(7, 2), Version(7, 4), NEWEST];
pub const NEWEST: Version = Version(8, 0);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

const fn test(title: &'static str, names: &'static [&'static str], words: &'static str) -> Test {
    Test { title, names, words, runs_in: RunsIn::All }
}

const fn of_valkey(title: &'static str, names: &'static [&'static str], words: &'static str) -> Test {
    Test { title, names, words, runs_in: RunsIn::Valkey }
}

const LRANGES: &[&str] = &["lrange", "lrange_100", "lrange_300", "lrange_500", "lrange_600"];

pub const TESTS: &[Test] = &[
    test("PING_INLINE", &["ping_inline", "ping"], ""),
    test("PING_MBULK", &["ping_mbulk", "ping"], "PING"),
    test("SET", &["set"], "SET keyT:__rand_int__ D"),
    test("GET", &["get"], "GET keyT:__rand_int__"),
    test("INCR", &["incr"], "INCR counterT:__rand_int__"),
    test("LPUSH", &["lpush"], "LPUSH mylistT D"),
    test("RPUSH", &["rpush"], "RPUSH mylistT D"),
    test("LPOP", &["lpop"], "LPOP mylistT"),
    test("RPOP", &["rpop"], "RPOP mylistT"),
    test("SADD", &["sadd"], "SADD mysetT element:__rand_int__"),
    test("HSET", &["hset"], "HSET myhashT element:__rand_int__ D"),
    test("SPOP", &["spop"], "SPOP mysetT"),
    test("ZADD", &["zadd"], "ZADD myzsetT S E"),
    test("ZPOPMIN", &["zpopmin"], "ZPOPMIN myzsetT"),
    test("LPUSH (needed to benchmark LRANGE)", LRANGES, "LPUSH mylistT D"),
    test("LRANGE_100 (first 100 elements)", &["lrange", "lrange_100"], "LRANGE mylistT 0 99"),
    test("LRANGE_300 (first 300 elements)", &["lrange", "lrange_300"], "LRANGE mylistT 0 299"),
    test("LRANGE_500 (first 500 elements)", &["lrange", "lrange_500"], "LRANGE mylistT 0 499"),
    test("LRANGE_600 (first 600 elements)", &["lrange", "lrange_600"], "LRANGE mylistT 0 599"),
    test("MSET (10 keys)", &["mset"], "MSET keyT:__rand_int__ D*10"),
    of_valkey("MGET (10 keys)", &["mget"], "MGET keyT:__rand_int__*10"),
    Test { runs_in: RunsIn::Since(Version(7, 2)), ..test("XADD", &["xadd"], "XADD mystreamT * myfield D") },
    of_valkey("FUNCTION LOAD", &["function_load"], "FUNCTION LOAD REPLACE L"),
    of_valkey("FCALL", &["fcall"], "FCALL foo1 K"),
];

/// The value of `bytes` bytes: a linear congruential generator, the same for every run.
pub fn value(bytes: usize) -> Vec<u8> {
    let mut state: u32 = 1234;
    let mut next = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        b'0' + ((state >> 16) & 63) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A library of so many functions; with `keys` they return their first key.
pub fn library(functions: usize, keys: bool) -> String {
    let answer = if keys { "keys[1]" } else { "0" };
    let function = |number| {
        format!("redis.register_function('foo{number}', function(keys, args) return {answer} end)\n")
    };
    "#!lua name=benchlib\n".to_owned() + &(1..=functions).map(function).collect::<String>()
}
