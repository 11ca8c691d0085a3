//! Cipher suites of TLS in OpenSSL's language, as far as rustls can say it.

use rustls::SupportedCipherSuite;
use rustls::crypto::SupportedKxGroup;

use text::failure::Failure;

/// A suite with the name that OpenSSL has for it.
pub type Named = (String, SupportedCipherSuite);

/// OpenSSL's words for several suites, and what all of their names hold.
const CLASSES: [(&str, &str); 16] = [
    ("ALL", ""),
    ("DEFAULT", ""),
    ("HIGH", ""),
    ("TLSv1.2", ""),
    ("ECDHE", "ECDHE-"),
    ("EECDH", "ECDHE-"),
    ("kECDHE", "ECDHE-"),
    ("kEECDH", "ECDHE-"),
    ("aRSA", "-RSA-"),
    ("ECDSA", "-ECDSA-"),
    ("aECDSA", "-ECDSA-"),
    ("AES", "-AES"),
    ("AES128", "-AES128-"),
    ("AES256", "-AES256-"),
    ("AESGCM", "-GCM-"),
    ("CHACHA20", "-CHACHA20-"),
];

/// OpenSSL's names of the groups of the key exchange, those of rustls last.
const GROUPS: [(&[&str], &str); 3] =
    [(&["x25519"], "X25519"), (&["p-256", "prime256v1"], "secp256r1"), (&["p-384"], "secp384r1")];

/// The name of `suite` in OpenSSL: `ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`.
pub fn named(suite: SupportedCipherSuite) -> Named {
    let name = format!("{:?}", suite.suite());
    let name = match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name
            .replace("TLS_", "")
            .replace("WITH_", "")
            .replace("AES_", "AES")
            .replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
            .replace('_', "-"),
    };
    (name, suite)
}

/// The suites of `known` that the names of `list` mean, in its order; each must be known, as with TLS 1.3 in OpenSSL.
pub fn by_names(list: &str, known: &[Named]) -> Result<Vec<SupportedCipherSuite>, Failure> {
    let find = |name: &str| known.iter().find(|(known, _)| known == name).map(|(_, suite)| *suite);
    let suite = |name| find(name).ok_or_else(|| unknown("--tls-ciphersuites", name, known));
    list.split(':').map(suite).collect()
}

/// The suites of `known` that `list` leaves, in its order. As in OpenSSL `-X` takes out, `!X` for good, and `+X` moves
/// to the end; `X+Y` is what both mean, and a word that means nothing here is passed over.
pub fn by_list(list: &str, known: &[Named]) -> Result<Vec<SupportedCipherSuite>, Failure> {
    let (mut left, mut chosen) = (known.to_vec(), Vec::<Named>::new());
    for word in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
        let (sign, classes) = word.split_at(usize::from(word.starts_with(['-', '!', '+'])));
        let is_meant = |(name, _): &Named| classes.split('+').all(|class| is_in(name, class));
        match sign {
            "+" => chosen.sort_by_key(is_meant),
            "" => {
                let new = left.iter().filter(|suite| is_meant(suite) && !chosen.contains(suite));
                let new: Vec<Named> = new.cloned().collect();
                chosen.extend(new);
            }
            _ => chosen.retain(|suite| !is_meant(suite)),
        }
        if sign == "!" {
            left.retain(|suite| !is_meant(suite));
        }
    }
    match chosen.is_empty() {
        true => Err(unknown("--tls-ciphers", list, known)),
        false => Ok(chosen.into_iter().map(|(_, suite)| suite).collect()),
    }
}

/// The groups of `known` that the names of `list` mean, in its order. As in OpenSSL one that is not known and begins with
/// `?` is passed over.
pub fn groups(
    list: &str,
    known: &[&'static dyn SupportedKxGroup],
) -> Result<Vec<&'static dyn SupportedKxGroup>, Failure> {
    let mut chosen: Vec<&'static dyn SupportedKxGroup> = Vec::new();
    for word in list.split(':') {
        let (name, may_miss) = word.strip_prefix('?').map_or((word, false), |name| (name, true));
        match known.iter().find(|group| is_group(name, **group)) {
            Some(group) if chosen.iter().all(|other| other.name() != group.name()) => chosen.push(*group),
            Some(_) => {}
            None if may_miss => {}
            None => return Err(unknown_group(name)),
        }
    }
    match chosen.is_empty() {
        true => Err(unknown_group(list)),
        false => Ok(chosen),
    }
}

fn is_group(name: &str, group: &dyn SupportedKxGroup) -> bool {
    let own = format!("{:?}", group.name());
    let other = GROUPS.iter().find(|(_, of_rustls)| *of_rustls == own).map_or(&[][..], |(names, _)| names);
    own.eq_ignore_ascii_case(name) || other.iter().any(|other| other.eq_ignore_ascii_case(name))
}

fn unknown_group(name: &str) -> Failure {
    Failure::usage(format!("--tls-groups cannot have '{name}'"), "rustls knows X25519:P-256:P-384")
}

fn is_in(name: &str, class: &str) -> bool {
    name == class || CLASSES.iter().any(|(word, part)| *word == class && name.contains(part))
}

fn unknown(option: &str, text: &str, known: &[Named]) -> Failure {
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    Failure::usage(format!("{option} cannot have '{text}'"), format!("rustls knows {}", names.join(":")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_12() -> Vec<Named> {
        let suites = rustls::crypto::ring::default_provider().cipher_suites;
        suites.into_iter().filter(|suite| suite.tls13().is_none()).map(named).collect()
    }

    fn names(list: &str) -> String {
        let suites = by_list(list, &named_12()).unwrap();
        suites.into_iter().map(|suite| named(suite).0).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lists_are_read_as_openssl_reads_them() {
        assert_eq!(names("DEFAULT:-AES128-SHA256").split(' ').count(), 6);
        assert_eq!(names("HIGH:!aNULL:!MD5").split(' ').count(), 6);
        assert_eq!(
            names("ECDHE+AESGCM:!aECDSA:@STRENGTH"),
            "ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-AES128-GCM-SHA256"
        );
        assert_eq!(names("aRSA:-AES:+CHACHA20"), "ECDHE-RSA-CHACHA20-POLY1305");
        assert_eq!(names("aRSA+AES,+AES256"), "ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES256-GCM-SHA384");
        assert_eq!(names("!AES:ALL:-ECDSA"), "ECDHE-RSA-CHACHA20-POLY1305");
        assert_eq!(names("-AES:aRSA+AES256"), "ECDHE-RSA-AES256-GCM-SHA384");
        let message = by_list("AES128-SHA", &named_12()).unwrap_err().to_string();
        assert!(
            message.contains("cannot have 'AES128-SHA'") && message.contains("ECDHE-RSA-AES128-GCM-SHA256")
        );
        assert!(by_list("ALL:!ALL", &named_12()).is_err());
    }

    #[test]
    fn groups_have_the_names_of_openssl() {
        let known = rustls::crypto::ring::default_provider().kx_groups;
        let names = |list: &str| {
            let found = groups(list, &known).map_err(|failure| failure.to_string())?;
            Ok(found.iter().map(|group| format!("{:?}", group.name())).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names("P-384:x25519"), Ok("secp384r1 X25519".to_owned()));
        assert_eq!(names("prime256v1:P-256:secp256r1:?X448"), Ok("secp256r1".to_owned()));
        for wrong in ["X448", "?X448", "", "P-256:P-521"] {
            let said: Result<String, String> = names(wrong);
            assert!(said.unwrap_err().contains("rustls knows X25519:P-256:P-384"), "{wrong}");
        }
    }

    #[test]
    fn the_suites_of_tls_13_have_names_only() {
        let suites = rustls::crypto::ring::default_provider().cipher_suites;
        let known: Vec<Named> =
            suites.into_iter().filter(|suite| suite.tls13().is_some()).map(named).collect();
        assert_eq!(by_names("TLS_AES_256_GCM_SHA384", &known).unwrap().len(), 1);
        assert!(by_names("DEFAULT", &known).is_err());
    }
}
