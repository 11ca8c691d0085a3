//! TLS and logins of Debian's memcached.

use super::machine::{OURS, Redis, output, said};
use super::memcached_server::{Memcached, failure};
use super::tls::Authority;

/// A server of memcached with TLS whose certificate `authority` has signed; `more` are further options of its -o.
fn secured(authority: &Authority, more: &str) -> Memcached {
    for name in ["server.crt", "server.key", "ca.crt"] {
        // memcached reads the files after it has dropped its privileges.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(authority.path(name), open).unwrap();
    }
    let folder = authority.path("");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, open).unwrap();
    let [chain, key, ca] = ["server.crt", "server.key", "ca.crt"].map(|name| authority.path(name));
    Memcached::tls(&format!("ssl_chain_cert={chain},ssl_key={key},ssl_ca_cert={ca}{more}"))
}

#[test]
fn a_load_of_memcached_over_tls_is_whole() {
    let authority = Authority::new();
    let server = secured(&authority, "");
    let ca = authority.path("ca.crt");
    let load = "--prefill -r 1000 -d 1000 -t get,set,mg_quiet,set_noreply -n 1000 -c 7";
    let document = server.document(&format!("--tls --cacert {ca} {load}"));
    let stats = server.stats();
    assert_eq!((stats["cmd_set"], stats["get_hits"]), (1000 + 1000 + 10_000, 1000 + 10_000));
    assert_eq!(document["tests"][0]["hits"], 1000);
    // Prefills keep their batches short enough for the server, which leaves the rest of long ones unread.
    let large =
        server.document(&format!("--tls --cacert {ca} --prefill=force -r 500 -d 4000 -t get -n 500 -P 16"));
    assert_eq!(large["tests"][0]["hits"], 500);
    let churn = server.document(&format!("--tls --cacert {ca} --mode churn -t version -n 20 -c 2"));
    assert!(churn["tests"][0]["connections"]["tls_us"]["mean"].as_f64().unwrap() > 0.0, "{churn}");
    server.ours("-q -n 100 -t get --tls --insecure --tls-ciphersuites TLS_AES_128_GCM_SHA256");
    // memtier_benchmark has TLS for memcache_text, too.
    let words = "memtier-benchmark -P memcache_text --tls --tls-skip-verify -c 1 -t 1 -n 30 --hide-histogram -h 127.0.0.1";
    let words: Vec<&str> = words.split(' ').chain(["-p", &server.place[1]]).collect();
    assert!(said(OURS, &words).contains("Totals"));
}

#[test]
fn what_is_wrong_with_the_tls_of_memcached_is_told() {
    let authority = Authority::new();
    let (server, plain) = (secured(&authority, ""), Memcached::tcp(&[]));
    let demanding = secured(&authority, ",ssl_verify_mode=2");
    let [ca, cert, key, other] =
        ["ca.crt", "client.crt", "client.key", "other.crt"].map(|name| authority.path(name));
    let get = "--protocol memcached -t get_miss -n 10 --timeout 2";
    for (server, words, cause) in [
        (&server, format!("--tls --cacert {other}"), "the TLS handshake with"),
        (&server, String::new(), "the server closed connection"),
        (&plain, "--tls --insecure".to_owned(), "the TLS handshake with"),
        (&demanding, format!("--tls --cacert {ca}"), "TLS"),
    ] {
        let message = server.failure("run", &format!("{get} {words}"));
        assert!(message.contains(cause), "{words}: {message}");
    }
    let message = server.failure("run", "--protocol memcached --prefill -t get -n 10 --timeout 2");
    assert!(
        message.contains("no answer to stats") && message.contains("with TLS if --tls is given"),
        "{message}"
    );
    let shown = format!("{get} --tls --cacert {ca} --cert {cert} --key {key} --json");
    said(OURS, &demanding.words("run", &shown));
}

#[test]
fn memcached_lets_in_who_logs_in() {
    let server = Memcached::with_logins();
    let login = "--user bench -a secret";
    let document = server.document(&format!("{login} --prefill -r 100 -t get,set_noreply -n 1000 -P 4 -c 5"));
    assert_eq!(document["prefill"]["keys_in_server"], 100);
    assert_eq!(
        (&document["tests"][0]["hits"], &document["tests"][0]["errors"]["count"]),
        (&1000.into(), &0.into())
    );
    assert!(!document.to_string().contains("secret") && document.to_string().contains("***"), "{document}");
    let stats = server.stats();
    assert_eq!((stats["cmd_set"], stats["auth_errors"]), (100 + 10_000, 0));
    let churn = server.document(&format!("{login} --mode churn -t version -n 20 -c 2"));
    assert!(churn["tests"][0]["connections"]["login_us"]["mean"].as_f64().unwrap() > 0.0, "{churn}");
    server.ours(&format!("{login} -q -n 100 -t set,get"));
    let both = ["duel", "--base", &server.place[1], "--head", &server.place[1]];
    let load = format!("{login} --protocol memcached -t set --duration 0.1 --json");
    let words: Vec<&str> = both.into_iter().chain(load.split(' ')).collect();
    said(OURS, &words);
}

#[test]
fn a_login_that_memcached_refuses_is_told_without_the_password() {
    let (server, open) = (Memcached::with_logins(), Memcached::tcp(&[]));
    let refused = "the server refused the login: CLIENT_ERROR authentication failure";
    for first in ["run", "memcached-benchmark"] {
        let load =
            if first == "run" { "--protocol memcached -t get_miss -n 10" } else { "-t get_miss -n 10" };
        for (server, words, cause, remedy) in [
            (&server, "--user bench -a hidden", refused, "correct -a and --user"),
            (&server, "--user nobody -a hidden", refused, "correct -a and --user"),
            (&server, "", "CLIENT_ERROR unauthenticated", "log in with -a and --user"),
            (&open, "--user bench -a hidden", "has no logins", "leave -a and --user out"),
        ] {
            let message = server.failure(first, &format!("{load} {words}"));
            assert!(message.contains(cause) && message.contains(remedy), "{first} {words}: {message}");
            assert!(!message.contains("hidden"), "{message}");
        }
    }
    // No password was stored as a value.
    assert_eq!(open.stats()["cmd_set"], 0);
    for (words, cause) in [
        ("--protocol memcached -t set -n 10", "log in with -a and --user"),
        ("--protocol memcached --prefill -t get -n 10", "log in with -a and --user"),
        ("--protocol memcached --user bench -a hidden --ladder clients=1,2 -t get_miss -n 10", "the login"),
    ] {
        let message = server.failure("run", words);
        assert!(message.contains(cause), "{message}");
    }
}

#[test]
fn a_password_of_memcached_is_not_sent_to_another_server() {
    let redis = Redis::start(&["--port", "PORT"]);
    let words =
        format!("run -p {} --protocol memcached --user bench -a hidden -t get_miss -n 10", redis.port);
    let message = failure(&words.split(' ').collect::<Vec<_>>(), 1);
    assert!(
        message.contains("answered version with -ERR") && message.contains("give a memcached server"),
        "{message}"
    );
    let server = Memcached::with_logins();
    let resp = output(OURS, &server.words("run", "--user bench -a secret -t get -n 10"));
    let message = String::from_utf8(resp.stderr).unwrap();
    assert!(message.contains("speaks RESP") && !message.contains("secret"), "{message}");
}
