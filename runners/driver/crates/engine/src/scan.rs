//! The scan of a key space by one connection: each reply names the cursor of the next request.

/// A cursor ends within so many bytes of a reply: two lengths and 20 digits.
const LONGEST_HEAD: usize = 64;
/// The places of the script's order: the request that begins a scan, and that which goes on with it.
const FIRST: usize = 0;
const NEXT: usize = 1;

/// Where the scan of a connection is.
pub struct Scan {
    /// Requests with a cursor, at most, before the scan begins again; none: it goes to its end.
    most: Option<u64>,
    /// Those since it has begun.
    continued: u64,
    /// The begin of the reply that is being received.
    head: Vec<u8>,
}

impl Scan {
    pub fn new(most: Option<u64>) -> Scan {
        Scan { most, continued: 0, head: Vec::new() }
    }

    /// Take bytes of the reply to the last request.
    pub fn take(&mut self, bytes: &[u8]) {
        let room = LONGEST_HEAD - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The reply is complete: the place of the next request in the script's order, and its cursor. A reply without a
    /// cursor, as an error, ends the scan.
    pub fn end_reply(&mut self) -> (usize, u64) {
        let cursor = cursor(&self.head).unwrap_or(0);
        self.head.clear();
        if cursor == 0 || self.most.is_some_and(|most| self.continued >= most) {
            return self.restart();
        }
        self.continued += 1;
        (NEXT, cursor)
    }

    /// Begin again; see [`Scan::end_reply`].
    pub fn restart(&mut self) -> (usize, u64) {
        self.head.clear();
        self.continued = 0;
        (FIRST, 0)
    }
}

/// The first element of the list that begins with `head`, if it is a number.
fn cursor(head: &[u8]) -> Option<u64> {
    let mut lines = head.split(|byte| *byte == b'\r');
    let (list, length, cursor) = (lines.next()?, lines.next()?, lines.next()?);
    let begins = list.starts_with(b"*") && length.starts_with(b"\n$");
    std::str::from_utf8(cursor.strip_prefix(b"\n")?).ok().filter(|_| begins)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(scan: &mut Scan, bytes: &[u8]) -> (usize, u64) {
        bytes.chunks(3).for_each(|part| scan.take(part));
        scan.end_reply()
    }

    #[test]
    fn a_scan_goes_on_until_its_cursor_is_zero() {
        let mut scan = Scan::new(None);
        let long =
            [b"*2\r\n$20\r\n18446744073709551615\r\n*1\r\n$99\r\n".as_slice(), &[0xff; 99], b"\r\n"].concat();
        assert_eq!(reply(&mut scan, &long), (NEXT, u64::MAX));
        assert_eq!(reply(&mut scan, b"*2\r\n$2\r\n17\r\n*0\r\n"), (NEXT, 17));
        assert_eq!(reply(&mut scan, b"*2\r\n$1\r\n0\r\n*0\r\n"), (FIRST, 0));
    }

    #[test]
    fn an_error_or_the_most_requests_begin_it_again() {
        let mut scan = Scan::new(Some(2));
        let next = |scan: &mut Scan| reply(scan, b"*2\r\n$1\r\n7\r\n*0\r\n").0;
        let places: Vec<usize> = (0..6).map(|_| next(&mut scan)).collect();
        assert_eq!(places, [NEXT, NEXT, FIRST, NEXT, NEXT, FIRST]);
        assert_eq!(next(&mut scan), NEXT);
        assert_eq!(reply(&mut scan, b"-ERR invalid cursor\r\n"), (FIRST, 0));
        assert_eq!([next(&mut scan), next(&mut scan), next(&mut scan)], [NEXT, NEXT, FIRST]);
    }
}
