//! `redis://user:password@host:port/db` and its relatives.

use crate::command_line::HIDDEN;
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::words::hex_byte;

fn bad(uri: &str, cause: &str) -> Failure {
    // A URI may hold a password: it is not repeated.
    let scheme = uri.split("://").next().unwrap_or_default();
    let begin = if uri.contains("://") { format!("{scheme}://...") } else { "given".to_owned() };
    Failure::usage(format!("the URI of -u ({begin}) {cause}"), "write redis://user:password@host:port/db")
}

/// The same without user and password.
pub fn without_login(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://{HIDDEN}@{place}"),
        None => uri.to_owned(),
    }
}

/// Put what `uri` says into `endpoint`; `rediss` and `valkeys` ask for TLS.
pub fn read(uri: &str, endpoint: &mut Endpoint) -> Result<(), Failure> {
    let (scheme, rest) = uri.split_once("://").ok_or_else(|| bad(uri, "has no scheme"))?;
    endpoint.tls |= match scheme.to_lowercase().as_str() {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err(bad(uri, "has a scheme that is not redis, rediss, valkey or valkeys")),
    };
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, place) = place.rsplit_once('@').map_or((None, place), |(login, place)| (Some(login), place));
    if let Some(login) = login {
        let decode = |text: &str| decoded(text).ok_or_else(|| bad(uri, "has a wrong % code"));
        let (user, password) = login.split_once(':').unwrap_or(("", login));
        endpoint.user = Some(decode(user)?).filter(|user| !user.is_empty());
        endpoint.password = Some(decode(password)?);
    }
    let (host, port) = host_and_port(place);
    if !host.is_empty() {
        endpoint.host = host.to_owned();
    }
    if let Some(port) = port {
        let port = port.parse().map_err(|_| bad(uri, "has a port that is not a number up to 65535"))?;
        endpoint.port = Some(port);
    }
    if !database.is_empty() {
        endpoint.database = database.parse().map_err(|_| bad(uri, "has a database that is not a number"))?;
    }
    Ok(())
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_and_port(place: &str) -> (&str, Option<&str>) {
    match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    }
}

/// `text` with its %XX replaced; none when one of them is not hexadecimal or the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            bytes.push(hex_byte(rest)?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(uri: &str) -> Result<Endpoint, Failure> {
        let mut endpoint = Endpoint::default();
        read(uri, &mut endpoint).map(|()| endpoint)
    }

    #[test]
    fn every_part_of_a_uri_is_read() {
        let all = endpoint("rediss://joe:p%40ss@example.org:7000/3").unwrap();
        assert!(all.tls);
        assert_eq!((all.user.as_deref(), all.password.as_deref()), (Some("joe"), Some("p@ss")));
        assert_eq!((all.host.as_str(), all.port, all.database), ("example.org", Some(7000), 3));
        let some = endpoint("redis://secret@[::1]:7000").unwrap();
        assert_eq!((some.user, some.password.as_deref()), (None, Some("secret")));
        assert_eq!((some.host.as_str(), some.port), ("::1", Some(7000)));
        let none = endpoint("valkey://").unwrap();
        assert_eq!((none.host.as_str(), none.port), ("127.0.0.1", None));
    }

    #[test]
    fn a_wrong_uri_is_told_without_its_password() {
        for uri in [
            "http://a:pw@b",
            "redis://a:p%zw@b",
            "redis://a:pw%+1@b",
            "redis://:pw@h:99999",
            "redis://:pw@h/x",
            "pw@h",
        ] {
            let told = endpoint(uri).err().unwrap().to_string();
            assert!(told.contains("-u") && !told.contains("pw"), "{told}");
        }
    }
}
