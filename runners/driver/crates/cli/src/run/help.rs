//! The text of --help.

pub const HELP: &str = "\
Measure a server that speaks RESP (Redis, Valkey) or the protocol of memcached.

Usage: speedbench run [options]
       speedbench compare ...                results with each other; see its --help
       speedbench redis-benchmark ...        as redis-benchmark; see its --help
       speedbench memcached-benchmark ...    the same for memcached
       speedbench memtier-benchmark ...      as memtier_benchmark; see its --help

Server
  --protocol NAME    resp or memcached (resp)
  -h HOST            host name or address (127.0.0.1)
  -p PORT            port (6379; memcached 11211)
  -s SOCKET          path of a unix socket; replaces -h and -p
  -u URI             redis://user:password@host:port/db; rediss:// for TLS
  -a PASSWORD        password
  --user NAME        user of the password
  --dbnum DB         database (0)
  --cluster          spread the load over the masters of a cluster; keys need {tag}
  --timeout S        give up when the server is silent for S seconds (10)
  --tls              encrypt; with --sni NAME, --cacert FILE, --cacertdir DIR, --insecure,
                     --cert FILE --key FILE, --tls-ciphers LIST, --tls-ciphersuites LIST

Workload
  --mode NAME        closed: a loop that sends again when it was answered; idle: connections
                     that are held and silent; churn: each sends one batch (closed);
                     pubsub: -c subscribers; blocking: -c clients that wait for values
  --publishers N, --channels N, --subscribe channels|patterns|shards    of pubsub (1, 1)
  --pop COMMAND      of blocking: blpop, bzpopmin or xreadgroup (blpop)
  --workload FILE    phases of load as TOML, or JSON (*.json, or - for stdin); instead
                     of the other options of this block, but --seed, and of the window
  -t TESTS           of ping,set,get,incr; measured in this order (all);
                     memcached: see memcached-benchmark --help
                     a mix with weights is a test, too: get:9+set:1
  -c CLIENTS         connections (50)
  -P PIPELINE        requests per batch of a connection (1)
  -r KEYSPACE        keys (1)
  -d VALUE_BYTES     bytes of a value (3)
  --window KIND      batch: send when all replies are in; rolling: after each (batch)
  --seed N           the same seed sends the same requests (1)
  --prefill          first set every key once, and check that the server has them; it
                     must hold no keys before. --prefill=force overwrites keys that
                     it holds, also those of a --workload
  -3                 speak RESP3
  --tracking         ask for client tracking, with -3: invalidations are counted

Schedule
  --rate R           open loop: R requests per second of all connections, answered or
                     not; -P is how many each may have in flight
  --arrivals LAW     fixed, or poisson: gaps of chance (fixed)
  --sweep LIST       each of these rates, as in 10000,20000
  --search LIMIT     the highest rate that keeps it, as in p99:1000us; begins at --rate
  --probe-clients N  connections that ask at a low rate beside the load (1)
  --probe-rate R     requests per second of all of them (100); either asks for a probe

Window
  --duration S       seconds (5)
  -n REQUESTS        exactly so many requests instead
  --warmup S         seconds of the same load before it (0.5; with -n 0)
  --warmup-most S    go on with it until the load is steady, but no longer than this
  --slice-ms MS      width of the slices (100)

Machine
  --threads N        driver threads (1)
  --cpus LIST        pin thread i to CPU i of the list, as in 1,3
  --server-pid PID   read the CPU time of this process, too
  --server-events L  let the kernel count instructions,cycles of it (task-clock, page-faults, context-switches)

Result
  --json             one document, schema speedbench.v1, instead of a table
  --csv              one row per test instead of a table
  --hdr-log FILE     latencies of each second, as a log of HdrHistogram intervals
  --allow-errors     count error replies instead of giving up
  --help, --version
";

pub const SEE_HELP: &str = "see `speedbench --help`";
