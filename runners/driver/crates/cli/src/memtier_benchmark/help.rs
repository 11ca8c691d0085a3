//! `--help`.

pub const HELP: &str = "\
memtier_benchmark's usual options in front of speedbench; README.md says what differs.

Usage: memtier-benchmark [options]

Server
  -h, -s, --host, --server HOST  (localhost)
  -p, --port PORT                (6379; memcache_text 11211)
  -S, --unix-socket PATH
  -P, --protocol NAME            redis, resp2, resp3 or memcache_text (redis)
  -a PASSWORD or USER:PASSWORD

Load
  -c, --clients N                connections per thread (50)
  -t, --threads N                (4)
  -n, --requests N               of each connection, or allkeys (10000)
  --test-time S                  instead of -n
  --pipeline N                   requests in flight of a connection (1)
  --rate-limiting RPS            of each connection: an open loop
  --ratio SETS:GETS              (1:10)
  --command TEXT                 instead of them, with __key__ and __data__; may be repeated
  --command-ratio N              of the command before it (1)
  --command-key-pattern LETTER   of the command before it

Values and keys
  -d, --data-size BYTES          (32)
  --data-size-range LEAST-MOST
  --data-size-list BYTES:WEIGHT,...
  --expiry-range LEAST-MOST      seconds
  --key-prefix TEXT              (memtier-)
  --key-minimum N, --key-maximum N   (0, 10000000)
  --key-pattern LETTER:LETTER    R, S, G, Z or P, for sets and for gets (R:R)
  --key-stddev N, --key-median N
  --key-zipf-exp S               (1)

Result
  --json-out-file FILE           write the document, too
  --hide-histogram               without the percentiles
  --help, --version
";
