//! Where keys belong, as libmemcached places them: ketama_reference.py made ketama.txt.

use engine::ketama::Continuum;
use engine::spread;
use network::target::Address;

const REFERENCE: &str = include_str!("ketama.txt");
const LETTERS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

fn address(text: &str) -> Address {
    match text.rsplit_once('|').unwrap() {
        (path, "0") => Address::Unix { path: path.to_owned() },
        (host, port) => Address::Tcp { host: host.to_owned(), port: port.parse().unwrap() },
    }
}

#[test]
fn keys_are_where_libmemcached_has_them() {
    let lines: Vec<&str> = REFERENCE.lines().collect();
    assert_eq!(lines.len(), 2 * 7);
    for pair in lines.chunks(2) {
        let servers: Vec<Address> = pair[0].split(' ').map(address).collect();
        let ring = Continuum::new(&servers);
        let key = |number| format!("key:{number:012}").into_bytes();
        let placed: Vec<u8> = (0..pair[1].len()).map(|number| LETTERS[ring.server(&key(number))]).collect();
        assert_eq!(String::from_utf8(placed).unwrap(), pair[1], "{}", pair[0]);
        let shares = spread::numbers(servers.len(), b"key:", pair[1].len() as u32, |key| ring.server(key));
        for (at, numbers) in shares.iter().enumerate() {
            assert!(numbers.iter().all(|number| pair[1].as_bytes()[*number as usize] == LETTERS[at]));
        }
        assert_eq!(shares.iter().map(|numbers| numbers.len()).sum::<usize>(), pair[1].len());
    }
}
