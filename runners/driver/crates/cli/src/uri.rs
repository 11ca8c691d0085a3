//! URIs of servers: `redis://user:password@host:port/db` and the like.

use text::failure::Failure;
use text::secrets::HIDDEN;
use text::words::hex_byte;

fn bad(option: &str, uri: &str, cause: &str) -> Failure {
    // A URI may hold a password: it is not repeated.
    let scheme = uri.split("://").next().unwrap_or_default();
    let begin = if uri.contains("://") { format!("{scheme}://...") } else { "given".to_owned() };
    Failure::usage(
        format!("the URI of {option} ({begin}) {cause}"),
        "write redis://user:password@host:port/db",
    )
}

/// The same without user and password.
pub fn without_login(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://{HIDDEN}@{place}"),
        None => uri.to_owned(),
    }
}

/// What a URI says of a server; none of what it leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uri {
    /// `rediss` and `valkeys` ask for it.
    pub tls: bool,
    pub login: Option<Login>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub database: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Login {
    pub user: Option<String>,
    pub password: String,
}

/// The parts of `uri`, which is given as `-u`.
pub fn parse(uri: &str) -> Result<Uri, Failure> {
    parse_of("-u", uri)
}

/// The parts of `uri`, which is given as `option`.
pub fn parse_of(option: &str, uri: &str) -> Result<Uri, Failure> {
    let bad = |uri: &str, cause: &str| bad(option, uri, cause);
    let (scheme, rest) = uri.split_once("://").ok_or_else(|| bad(uri, "has no scheme"))?;
    let tls = match scheme.to_lowercase().as_str() {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return Err(bad(uri, "has a scheme that is not redis, rediss, valkey or valkeys")),
    };
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, place) = place.rsplit_once('@').map_or((None, place), |(login, place)| (Some(login), place));
    let decode = |text: &str| decoded(text).ok_or_else(|| bad(uri, "has a wrong % code"));
    let read_login = |login: &str| {
        let (user, password) = login.split_once(':').unwrap_or(("", login));
        Ok(Login { user: Some(decode(user)?).filter(|user| !user.is_empty()), password: decode(password)? })
    };
    let (host, port) = host_and_port(place);
    let read_port =
        |port: &str| port.parse().map_err(|_| bad(uri, "has a port that is not a number up to 65535"));
    let read_database =
        |number: &str| number.parse().map_err(|_| bad(uri, "has a database that is not a number"));
    Ok(Uri {
        tls,
        login: login.map(read_login).transpose()?,
        host: Some(host.to_owned()).filter(|host| !host.is_empty()),
        port: port.map(read_port).transpose()?,
        database: Some(database).filter(|number| !number.is_empty()).map(read_database).transpose()?,
    })
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
pub fn host_and_port(place: &str) -> (&str, Option<&str>) {
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

    #[test]
    fn every_part_of_a_uri_is_read() {
        let login = |user: Option<&str>, password: &str| {
            Some(Login { user: user.map(str::to_owned), password: password.to_owned() })
        };
        let all = parse("rediss://joe:p%40ss@example.org:7000/3").unwrap();
        assert!(all.tls);
        assert_eq!(all.login, login(Some("joe"), "p@ss"));
        assert_eq!((all.host.as_deref(), all.port, all.database), (Some("example.org"), Some(7000), Some(3)));
        let some = parse("redis://secret@[::1]:7000").unwrap();
        assert_eq!((some.login, some.tls), (login(None, "secret"), false));
        assert_eq!((some.host.as_deref(), some.port), (Some("::1"), Some(7000)));
        assert_eq!(parse("valkey://").unwrap(), Uri::default());
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
            let message = parse(uri).err().unwrap().to_string();
            assert!(message.contains("-u") && !message.contains("pw"), "{message}");
        }
    }
}
