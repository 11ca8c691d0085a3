//! X.509 as far as OpenSSL takes what rustls' verifier refuses: version 1, and one that is trusted itself.

use jiff::Timestamp;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime};

const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;

/// The parts of a certificate, in DER.
#[derive(Debug)]
pub struct Certificate<'a> {
    has_version: bool,
    signed: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
    /// From when and until when, as `YYYYMMDDhhmmss`.
    validity: [String; 2],
    /// The key with its algorithm, as one element.
    pub subject_public_key_info: &'a [u8],
    pub key: PublicKey<'a>,
    signature_algorithm: &'a [u8],
    signature: &'a [u8],
}

#[derive(Debug, Clone, Copy)]
pub struct PublicKey<'a> {
    algorithm: &'a [u8],
    bits: &'a [u8],
}

/// One element of DER: tag, content, and both with the length.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

/// The first element of `der`, which is left with the rest; none when it is not whole.
fn take<'a>(der: &mut &'a [u8]) -> Option<Element<'a>> {
    let (tag, first) = (*der.first()?, usize::from(*der.get(1)?));
    let digits = first.saturating_sub(0x80);
    let number = der.get(2..2 + digits).filter(|digits| digits.len() <= 4)?;
    let number = number.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit));
    let begin = 2 + digits;
    let end = begin + if first < 0x80 { first } else { number };
    let element = Element { tag, content: der.get(begin..end)?, whole: &der[..end] };
    *der = &der[end..];
    Some(element)
}

/// The bits of a BIT STRING of whole bytes.
fn bits(element: Element<'_>) -> Option<&[u8]> {
    element.content.strip_prefix(&[0])
}

fn time(element: &Element<'_>) -> Option<String> {
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    let century = match element.tag {
        UTC_TIME if text < "50" => "20",
        UTC_TIME => "19",
        _ => "",
    };
    Some(format!("{century}{text}"))
}

impl<'a> Certificate<'a> {
    /// The parts of `der`; none when it is no certificate.
    pub fn parse(mut der: &'a [u8]) -> Option<Certificate<'a>> {
        let mut whole = take(&mut der)?.content;
        let (signed, algorithm, signature) = (take(&mut whole)?, take(&mut whole)?, take(&mut whole)?);
        let mut fields = signed.content;
        let has_version = fields.first() == Some(&VERSION);
        // The version, which the first one leaves out, the serial number, and the algorithm once more.
        for _ in 0..2 + usize::from(has_version) {
            take(&mut fields)?;
        }
        let (issuer, mut validity, subject) =
            (take(&mut fields)?.whole, take(&mut fields)?.content, take(&mut fields)?.whole);
        let info = take(&mut fields)?;
        let mut key = info.content;
        Some(Certificate {
            has_version,
            signed: signed.whole,
            issuer,
            subject,
            validity: [time(&take(&mut validity)?)?, time(&take(&mut validity)?)?],
            subject_public_key_info: info.whole,
            key: PublicKey { algorithm: take(&mut key)?.content, bits: bits(take(&mut key)?)? },
            signature_algorithm: algorithm.content,
            signature: bits(signature)?,
        })
    }

    fn is_valid_at(&self, now: &str) -> bool {
        self.validity[0].as_str() <= now && now <= self.validity[1].as_str()
    }

    fn is_issued_by(&self, issuer: &Certificate<'_>, algorithms: &WebPkiSupportedAlgorithms) -> bool {
        let fitting = algorithms.all.iter().filter(|algorithm| {
            let id = algorithm.signature_alg_id();
            // The identifiers of RSA may leave out the parameters, which are null.
            self.signature_algorithm.starts_with(&id) || id.starts_with(self.signature_algorithm)
        });
        self.issuer == issuer.subject && issuer.key.has_signed(self.signed, self.signature, fitting.copied())
    }

    /// Whether this certificate is of version 1 and issued by one of `trusted`, or signed by itself and one of them.
    pub fn is_trusted_by_openssl(
        &self,
        trusted: &[CertificateDer<'_>],
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> bool {
        let now = written(now);
        let vouches = |authority: Certificate<'_>| {
            let is_itself = authority.signed == self.signed && authority.signature == self.signature;
            (is_itself || !self.has_version)
                && authority.is_valid_at(&now)
                && self.is_issued_by(&authority, algorithms)
        };
        self.is_valid_at(&now) && trusted.iter().filter_map(|der| Certificate::parse(der)).any(vouches)
    }
}

impl PublicKey<'_> {
    /// Whether `signature` is this key's below `message`, by one of `algorithms`.
    pub fn has_signed(
        &self,
        message: &[u8],
        signature: &[u8],
        mut algorithms: impl Iterator<Item = &'static dyn SignatureVerificationAlgorithm>,
    ) -> bool {
        algorithms.any(|algorithm| {
            *algorithm.public_key_alg_id() == *self.algorithm
                && algorithm.verify_signature(self.bits, message, signature).is_ok()
        })
    }
}

/// `now` in UTC as `YYYYMMDDhhmmss`; the end of time where no calendar reaches.
fn written(now: UnixTime) -> String {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).strftime("%Y%m%d%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_as_certificates_write_them() {
        let leap_day = UnixTime::since_unix_epoch(Duration::from_secs(951_782_400));
        assert_eq!(written(leap_day), "20000229000000");
        let utc = |text: &str| time(&take(&mut text.as_bytes()).unwrap());
        assert_eq!(utc("\u{17}\u{d}491231235959Z").unwrap(), "20491231235959");
        assert_eq!(utc("\u{17}\u{d}500101000000Z").unwrap(), "19500101000000");
        assert_eq!(utc("\u{18}\u{f}20500101000000Z").unwrap(), "20500101000000");
    }

    #[test]
    fn what_is_cut_is_no_certificate() {
        for cut in [&b""[..], b"\x30", b"\x30\x82\x01", b"\x30\x05\x30\x03\x02\x01\x01", b"\x30\xff\xff"] {
            assert!(Certificate::parse(cut).is_none());
        }
    }
}
