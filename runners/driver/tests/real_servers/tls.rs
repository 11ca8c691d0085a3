//! TLS with an authority that lives as long as the test.

use super::machine::{Directory, OURS, Redis, failure, ours, output, said};

pub struct Authority(Directory);

impl Authority {
    /// `ca.crt`, and `server.*` and `client.*` signed by it; `other.crt` has nothing to do with them.
    pub fn new() -> Authority {
        let authority = Authority(Directory::new());
        authority.root("ca");
        authority.root("other");
        authority.leaf("server");
        authority.leaf("client");
        authority
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path(name)
    }

    fn openssl(&self, words: &str) {
        let words: Vec<String> = words
            .split(' ')
            .map(|word| word.strip_prefix('@').map_or(word.to_owned(), |name| self.path(name)))
            .collect();
        said("openssl", &words);
    }

    fn root(&self, name: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
             -keyout @{name}.key -out @{name}.crt"
        ));
    }

    fn leaf(&self, name: &str) {
        std::fs::write(
            self.path("leaf.cnf"),
            "basicConstraints=CA:FALSE\nsubjectAltName=DNS:elsewhere.example\n",
        )
        .unwrap();
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout @{name}.key -out @{name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in @{name}.csr -CA @ca.crt -CAkey @ca.key -CAcreateserial -days 2 -extfile @leaf.cnf \
             -out @{name}.crt"
        ));
    }

    /// A leaf of X.509 v1, as scripts make it that name no extensions; `kind` is the algorithm of its key.
    fn leaf_v1(&self, name: &str, kind: &str) {
        self.openssl(&format!(
            "req -newkey {kind} -nodes -subj /CN={name} -keyout @{name}.key -out @{name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in @{name}.csr -CA @ca.crt -CAkey @ca.key -CAcreateserial -days 2 -out @{name}.crt"
        ));
    }

    fn server(&self, clients: &str) -> Redis {
        self.server_with("server", clients)
    }

    /// A server that shows the certificate `name`.
    fn server_with(&self, name: &str, clients: &str) -> Redis {
        let (cert, key) = (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        let ca = self.path("ca.crt");
        let files = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        Redis::start(&[&["--tls-port", "PORT", "--tls-auth-clients", clients], files.as_slice()].concat())
    }
}

#[test]
fn a_duel_over_tls_is_whole() {
    let authority = Authority::new();
    let (base, head) = (authority.server("no"), authority.server("no"));
    let words = format!("duel --base {} --head rediss://127.0.0.1:{} --tls --insecure", base.port, head.port);
    let load = "--prefill -r 100 -t get -c 5 -P 4 --duration 0.2 --json";
    let words: Vec<&str> = words.split(' ').chain(load.split(' ')).collect();
    let document: serde_json::Value = serde_json::from_str(&said(OURS, &words)).unwrap();
    for side in ["base", "head"] {
        let result = &document["tests"][0][side];
        assert!(result["requests"].as_u64().unwrap() > 0 && result["hits"] == result["requests"], "{result}");
    }
}

#[test]
fn a_load_over_tls_is_whole() {
    let authority = Authority::new();
    let redis = authority.server("no");
    let ca = authority.path("ca.crt");
    let tls = ["-p", &redis.port, "--tls", "--cacert", &ca, "-q"];
    ours(&[tls.as_slice(), &["-t", "set,get", "-n", "1001", "-P", "16", "-c", "7", "-d", "5000"]].concat());
    assert_eq!((redis.calls("set"), redis.calls("get")), (1001, 1001));
    ours(
        &[tls.as_slice(), &["-t", "incr", "-n", "55", "-k", "0", "-c", "3", "--sni", "elsewhere.example"]]
            .concat(),
    );
    assert_eq!(redis.calls("incr"), 55);
    ours(&[
        "-u",
        &format!("rediss://localhost:{}", redis.port),
        "--insecure",
        "-q",
        "-n",
        "10",
        "-t",
        "ping",
    ]);
    // More than any buffer between holds.
    ours(&[tls.as_slice(), &["-t", "set,get", "-n", "20", "-P", "4", "-c", "2", "-d", "1000000"]].concat());
}

#[test]
fn ciphers_can_be_chosen() {
    let authority = Authority::new();
    let redis = authority.server("no");
    let tls = ["-p", &redis.port, "--tls", "--insecure", "-q", "-n", "10", "-t", "ping"];
    for choice in [
        ["--tls-ciphersuites", "TLS_AES_128_GCM_SHA256"],
        ["--tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305"],
        ["--tls-groups", "P-384:X25519"],
    ] {
        ours(&[tls.as_slice(), &choice].concat());
    }
    let message = failure(&[tls.as_slice(), &["--tls-ciphers", "RC4-MD5"]].concat(), 2);
    assert!(message.contains("cannot have 'RC4-MD5'") && message.contains("rustls knows"), "{message}");
}

#[test]
fn certificates_of_both_sides_are_checked() {
    let authority = Authority::new();
    let redis = authority.server("yes");
    let file = |name: &str| authority.path(name);
    let (ca, cert, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
    let tls = ["-p", &redis.port, "--tls", "-q", "-n", "10", "-t", "ping", "--timeout", "3"];
    let own = ["--cert", &cert, "--key", &key];
    ours(&[tls.as_slice(), &["--cacert", &ca], &own].concat());
    let refused = failure(&[tls.as_slice(), &["--cacert", &ca]].concat(), 1);
    assert!(refused.starts_with("speedbench: ") && refused.contains("ertificate"), "{refused}");
    let distrusted = failure(&[tls.as_slice(), &["--cacert", &file("other.crt")], &own].concat(), 1);
    assert!(distrusted.contains("handshake") && distrusted.contains("--cacert"), "{distrusted}");
    let half = failure(&[tls.as_slice(), &["--cacert", &ca, "--cert", &cert]].concat(), 2);
    assert!(half.contains("--cert and --key belong together"), "{half}");
    let absent = failure(&[tls.as_slice(), &["--cacert", "/nonexistent.pem"]].concat(), 2);
    assert!(absent.contains("cannot read /nonexistent.pem"), "{absent}");
}

#[test]
fn certificates_of_version_1_are_taken_from_both_sides() {
    let authority = Authority::new();
    let tls = ["--tls", "-q", "-n", "10", "-t", "ping", "--timeout", "3"];
    let [ca, other] = ["ca.crt", "other.crt"].map(|name| authority.path(name));
    for kind in ["rsa:2048", "ec -pkeyopt ec_paramgen_curve:P-256"] {
        authority.leaf_v1("old", kind);
        authority.leaf_v1("stranger", kind);
        let redis = authority.server_with("old", "yes");
        let [cert, key, foreign] = ["old.crt", "old.key", "stranger.key"].map(|name| authority.path(name));
        let tls = [tls.as_slice(), &["-p", &redis.port, "--cert", &cert]].concat();
        ours(&[tls.as_slice(), &["--key", &key, "--cacert", &ca]].concat());
        ours(&[tls.as_slice(), &["--key", &key, "--insecure"]].concat());
        // rustls offers ECDSA and RSA in TLS 1.2 only by these.
        let suites = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256";
        redis.cli(&["config", "set", "tls-protocols", "TLSv1.2"]);
        ours(&[tls.as_slice(), &["--key", &key, "--cacert", &ca, "--tls-ciphers", suites]].concat());
        let distrusted = failure(&[tls.as_slice(), &["--key", &key, "--cacert", &other]].concat(), 1);
        assert!(distrusted.contains("handshake") && distrusted.contains("--cacert"), "{distrusted}");
        let apart = failure(&[tls.as_slice(), &["--key", &foreign, "--cacert", &ca]].concat(), 2);
        assert!(apart.contains("do not go together (the keys differ)"), "{apart}");
    }
}

#[test]
fn a_certificate_that_signed_itself_can_be_trusted() {
    let authority = Authority::new();
    let redis = authority.server_with("other", "no");
    let [own, ca] = ["other.crt", "ca.crt"].map(|name| authority.path(name));
    let tls = ["-p", &redis.port, "--tls", "-q", "-n", "10", "-t", "ping", "--timeout", "3"];
    ours(&[tls.as_slice(), &["--cacert", &own]].concat());
    ours(&[tls.as_slice(), &["--insecure"]].concat());
    let distrusted = failure(&[tls.as_slice(), &["--cacert", &ca]].concat(), 1);
    assert!(distrusted.contains("handshake"), "{distrusted}");
}

#[test]
fn a_full_server_is_named_over_tls() {
    let authority = Authority::new();
    let redis = authority.server("no");
    redis.cli(&["config", "set", "maxclients", "3"]);
    let message = failure(&["-p", &redis.port, "--tls", "--insecure", "-t", "ping", "-c", "9"], 1);
    assert!(message.contains("one that is full") && message.contains("maxclients"), "{message}");
}

#[test]
fn a_server_without_tls_is_told() {
    let redis = Redis::start(&[]);
    let message = failure(&["-p", &redis.port, "--tls", "--insecure", "-t", "ping", "--timeout", "2"], 1);
    assert!(message.contains("TLS handshake") && message.contains("speaks TLS"), "{message}");
}

#[test]
fn memtiers_options_of_tls_reach_the_server() {
    let authority = Authority::new();
    let redis = authority.server("yes");
    let [ca, cert, key] = ["ca.crt", "client.crt", "client.key"].map(|name| authority.path(name));
    let uri = format!("rediss://127.0.0.1:{}", redis.port);
    let load = "-c 2 -t 2 -n 50 --ratio 1:0 --key-maximum 99";
    let trusting = format!("--tls-skip-verify --cert {cert} --key {key}");
    let checking = format!("--cacert {ca} --sni elsewhere.example --cert {cert} --key {key}");
    for place in [format!("-p {} --tls {checking}", redis.port), format!("--uri {uri} {trusting}")] {
        redis.cli(&["config", "resetstat"]);
        let words = format!("memtier-benchmark {place} {load}");
        let table = said(OURS, &words.split(' ').collect::<Vec<_>>());
        assert!(table.contains("ALL STATS"), "{table}");
        assert_eq!(redis.calls("set"), 200);
    }
    // The server asks for a certificate.
    let words = format!("memtier-benchmark --uri {uri} --tls-skip-verify {load}");
    let output = output(OURS, &words.split(' ').collect::<Vec<_>>());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{message}");
}

#[test]
fn every_mode_of_run_speaks_tls() {
    let authority = Authority::new();
    let redis = authority.server("no");
    let ca = authority.path("ca.crt");
    for (mode, requests) in [
        ("--mode churn -c 3 -n 40", 40),
        ("--mode pubsub -c 3 -n 40 -d 50000", 120),
        ("--mode blocking -c 3 -n 40", 40),
        ("--mode idle -c 3 --duration 0.2", 0),
        ("-t set -n 40 -c 3", 40),
    ] {
        let words = ["run", "-p", &redis.port, "--tls", "--cacert", &ca, "--json"];
        let words: Vec<&str> = words.into_iter().chain(mode.split(' ')).collect();
        let document: serde_json::Value = serde_json::from_str(&said(OURS, &words)).unwrap();
        let test = &document["tests"][0];
        let counted = test["requests"].as_u64().unwrap() + test["unfinished"].as_u64().unwrap();
        assert_eq!(counted, requests, "{mode}");
        let handshakes = &test["connections"]["tls_us"]["min"];
        assert!(test["connections"].is_null() || handshakes.as_f64() > Some(0.0), "{test}");
    }
    let other = authority.path("other.crt");
    let words = [
        "run",
        "-p",
        &redis.port,
        "--tls",
        "--cacert",
        &other,
        "--mode",
        "churn",
        "-n",
        "5",
        "--timeout",
        "3",
    ];
    let output = super::machine::output(OURS, &words);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len(), message.lines().count()),
        (Some(1), 0, 1),
        "{message}"
    );
    assert!(message.contains("TLS handshake") && message.contains("--cacert"), "{message}");
}
