//! Requests that set the items of a dump.

use std::sync::Arc;

use crate::dump::{Dump, DumpReader};
use crate::rng::Rng;
use crate::values::Ttl;

/// What is sent until an item was read: it sets nothing and is answered as a set is.
const NOTHING: &[u8] = b"*1\r\n$7\r\nUNWATCH\r\n";

/// The items of a dump, and how they are set.
#[derive(Debug, Clone)]
pub struct Items {
    pub dump: Arc<Dump>,
    pub expiry: Expiry,
    /// What stands before the number of a key, where keys are generated; none: each item has its own key.
    pub prefix: Option<String>,
}

/// How long an item lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// As the dump says.
    OfItem,
    Drawn(Ttl),
    Never,
}

impl Items {
    /// The most bytes that one request may have.
    pub fn longest_request(&self) -> usize {
        /// Of the words around key and data, and of their lengths.
        const ROOM: usize = 128;
        self.dump.longest_data + self.longest_key() + ROOM
    }

    pub fn longest_key(&self) -> usize {
        const DIGITS: usize = 20;
        self.prefix.as_ref().map_or(self.dump.longest_key, |prefix| prefix.len() + DIGITS)
    }
}

/// The items as one connection sends them, from the first one on.
#[derive(Debug)]
pub struct ItemSource {
    items: Items,
    reader: DumpReader,
    request: Vec<u8>,
    key: Vec<u8>,
}

impl ItemSource {
    pub fn new(items: Items) -> ItemSource {
        let reader = items.dump.reader();
        ItemSource { items, reader, request: NOTHING.to_vec(), key: Vec::new() }
    }

    /// Make the request that sets the next item, under the key of this number if keys are generated. When the file cannot be
    /// read any more, it stays the one before.
    pub fn advance(&mut self, rng: &mut Rng, number: Option<u64>) {
        self.key.clear();
        if let (Some(prefix), Some(number)) = (&self.items.prefix, number) {
            self.key.extend_from_slice(format!("{prefix}{number}").as_bytes());
        }
        let Some(item) = self.reader.next_item() else { return };
        let key = if self.key.is_empty() { item.key } else { &self.key };
        let expiry = match self.items.expiry {
            Expiry::OfItem => item.expiry,
            Expiry::Drawn(ttl) => ttl.draw(rng),
            Expiry::Never => 0,
        };
        self.request.clear();
        match expiry {
            0 => words(&mut self.request, &[b"SET", key, item.data]),
            _ => words(&mut self.request, &[b"SETEX", key, expiry.to_string().as_bytes(), item.data]),
        }
    }

    /// The last one that was made.
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// The key of item `number`.
    pub fn key(&self, number: u64) -> &[u8] {
        self.items.dump.key(number)
    }
}

/// Append a request of RESP.
fn words(request: &mut Vec<u8>, words: &[&[u8]]) {
    request.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
}
