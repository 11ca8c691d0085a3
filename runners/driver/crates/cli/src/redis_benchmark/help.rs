//! The text of --help.

pub const HELP: &str = r#"Usage: redis-benchmark [OPTIONS] [COMMAND ARGS...]

Server
  -h HOST              host name or address (127.0.0.1)
  -p PORT              port (6379)
  -s SOCKET            path of a unix socket; replaces -h and -p
  -u URI               redis://user:password@host:port/db; rediss:// for TLS
  -a PASSWORD          password
  --user NAME          user of the password
  --dbnum DB           database (0)
  -3                   speak RESP3
  --enable-tracking    ask for client tracking
  --cluster            spread the load over the masters of a cluster; keys need {tag}
  --timeout S          give up when the server is silent for S seconds (10)

TLS
  --tls                encrypt
  --sni NAME           server name to ask for
  --cacert FILE        certificates to trust, instead of those of the system
  --cacertdir DIR      a directory of them
  --insecure           trust any certificate
  --cert FILE          certificate to show, with its key
  --key FILE
  --tls-ciphers LIST       of TLS 1.2, separated by colons
  --tls-ciphersuites LIST  of TLS 1.3, separated by colons

Load
  -c CLIENTS           connections (50)
  -n REQUESTS          exactly so many requests (100000)
  --duration S         seconds instead of -n
  --warmup S           seconds of the same load before, not counted (0)
  --rps RATE           at most so many requests per second
  -P PIPELINE          requests per batch of a connection (1)
  -d BYTES             bytes of a value (3)
  -r KEYSPACE          put numbers below it for __rand_int__ and its kin
  --sequential         count these numbers up instead of drawing them
  -k 0|1               0: a new connection for each batch (1)
  --threads N          threads
  --seed N             the same seed sends the same requests (1)
  -I                   open idle connections and wait

Tests
  -t TESTS             names separated by commas (all)
  -x                   the last word of the command is read from stdin
  -l                   again and again
  --num-functions N    functions in the library of FUNCTION LOAD (10)
  --num-keys-in-fcall N    keys of FCALL (1)

Output
  -q                   one line per test
  --csv                comma separated values
  --precision N        significant digits of the percentile table, 1 to 4 (3)
  --help, --version

A command may hold __rand_int__ (a number of its own), __rand_1st__ to __rand_9th__ and __key__ (the same number
wherever it stands in one command), __seq__ (counts all commands), __data__ (a value of -d bytes) and, with --cluster,
{tag}. A word in double quotes may hold escapes: "\x00\n". A word ';' separates commands of a sequence; a number
before a command repeats it.

  redis-benchmark -q -n 100000 -P 16 -t set,get
  redis-benchmark -r 100000 -n 1000000 --csv -- multi ';' 3 incr a:__rand_int__ ';' exec
"#;
