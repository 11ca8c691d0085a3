//! Which of several memcached servers has which key: the weighted ketama of libmemcached with equal weights.
//!
//! Each server has 160 points on a ring of 32 bits, four of each MD5 of its name and a number; a key belongs to the server of
//! the first point at or after its own MD5 (libmemcached 1.1.4, `update_continuum` in hosts.cc, `dispatch_host` in hash.cc).

use md5::{Digest, Md5};

use network::target::Address;

/// Points of a server whose weight is the mean, and how many of them each digest makes.
const POINTS: f32 = 160.0;
const POINTS_OF_DIGEST: usize = 4;
/// Names of servers on this port leave it out.
const USUAL_PORT: u16 = 11211;

/// The ring: points in order, each with the number of its server.
pub struct Continuum(Vec<(u32, usize)>);

impl Continuum {
    /// That of `servers`, of which there is at least one.
    pub fn new(servers: &[Address]) -> Continuum {
        let digests = digests(servers.len());
        let points = |(at, server): (usize, &Address)| {
            let name = name(server);
            let point = move |number: usize| {
                let digest = Md5::digest(format!("{name}-{number}"));
                let (words, _) = digest.as_chunks::<4>();
                let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
                words.into_iter().map(move |word| (word, at))
            };
            (0..digests).flat_map(point)
        };
        let mut ring: Vec<(u32, usize)> = servers.iter().enumerate().flat_map(points).collect();
        ring.sort_unstable();
        Continuum(ring)
    }

    /// The number of the server that has `key`.
    pub fn server(&self, key: &[u8]) -> usize {
        let digest = Md5::digest(key);
        let hash = u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
        let at = self.0.partition_point(|(point, _)| *point < hash);
        self.0[at % self.0.len()].1
    }
}

/// Digests for each of `servers` servers: 40, in libmemcached's single precision, which may round one of them off.
fn digests(servers: usize) -> usize {
    let share = 1.0 / servers as f32;
    let per_digest = POINTS_OF_DIGEST as f32;
    (f64::from(share * POINTS / per_digest * servers as f32) + 1e-10) as f32 as usize
}

/// What a server is called on the ring. A socket has port 0.
fn name(server: &Address) -> String {
    match server {
        Address::Tcp { host, port: USUAL_PORT } => host.clone(),
        Address::Tcp { host, port } => format!("{host}:{port}"),
        Address::Unix { path } => format!("{path}:0"),
    }
}
