//! Keys that are spread over several servers: each connection asks for the keys of its server.

use std::sync::Arc;

use generator::digits;
use generator::keys::{KeyOrder, Keys};

/// The keys that belong to one of several servers.
#[derive(Debug, Clone)]
pub struct Share {
    /// The numbers of these keys in ascending order; at least one.
    pub numbers: Arc<[u32]>,
    /// How often each is asked for, by its place among them.
    pub order: KeyOrder,
}

impl Share {
    /// The keys of connection `index` of the `clients` that the server has; in turn it takes `numbers` of them.
    pub fn keys(&self, index: usize, clients: usize, numbers: u64) -> Keys {
        Keys::new(&self.order, self.numbers.len() as u64, index, clients, numbers).among(self.numbers.clone())
    }
}

/// For each of `servers` servers the numbers below `keys` of its keys, which are called `head` and twelve digits; `server_of`
/// tells where a key belongs.
pub fn numbers(
    servers: usize,
    head: &[u8],
    keys: u32,
    server_of: impl Fn(&[u8]) -> usize,
) -> Vec<Arc<[u32]>> {
    let mut numbers = vec![Vec::new(); servers];
    let mut key = [head, &[0; digits::WIDTH]].concat();
    for number in 0..keys {
        if let Some(place) = key[head.len()..].first_chunk_mut() {
            digits::write(place, u64::from(number));
        }
        numbers[server_of(&key)].push(number);
    }
    numbers.into_iter().map(Arc::from).collect()
}
