//! The requests of one connection, rendered once and patched in place.

use std::ops::Range;
use std::sync::Arc;

use crate::digits;
use crate::proto::Template;
use crate::rng::Rng;

/// Values begin at one of this many places of the pool.
const VALUE_PLACES: u64 = 1 << 16;

/// Random bytes out of which all values are cut: values differ, and making one costs a copy.
#[derive(Clone)]
pub struct ValuePool(Arc<[u8]>);

impl ValuePool {
    /// The pool of `seed` for values of `value_bytes`. Its stream is one that no connection has.
    pub fn new(seed: u64, value_bytes: usize) -> ValuePool {
        let mut bytes = vec![0; value_bytes + VALUE_PLACES as usize];
        Rng::stream(seed, u64::MAX).fill(&mut bytes);
        ValuePool(bytes.into())
    }
}

/// Which key numbers a connection asks for.
#[derive(Clone)]
pub enum Keys {
    /// Each below the keyspace, all equally likely.
    Uniform { keyspace: u64 },
    /// Each of a range once, in order.
    Each(Range<u64>),
}

impl Keys {
    #[inline]
    fn next(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Keys::Uniform { keyspace } => rng.below(*keyspace),
            Keys::Each(range) => range.next().unwrap_or(range.end),
        }
    }
}

pub struct Batch {
    bytes: Vec<u8>,
    template: Template,
    keys: Keys,
    values: ValuePool,
    rng: Rng,
}

impl Batch {
    /// Room for `pipeline` requests; `rng` is the stream of the connection.
    pub fn new(template: Template, pipeline: usize, keys: Keys, values: ValuePool, rng: Rng) -> Batch {
        Batch { bytes: template.bytes.repeat(pipeline), template, keys, values, rng }
    }

    /// The bytes of the last prepared requests.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Patch the first `count` requests (at most the pipeline) with the next keys and values; their length in bytes.
    #[inline]
    pub fn prepare(&mut self, count: usize) -> usize {
        let length = self.template.bytes.len();
        for request in self.bytes.chunks_exact_mut(length).take(count) {
            if let Some(at) = self.template.key_at {
                let place = request[at..].first_chunk_mut().expect("the template holds the digits");
                digits::write(place, self.keys.next(&mut self.rng));
            }
            if let Some(value) = self.template.value.clone() {
                let from = self.rng.below(VALUE_PLACES) as usize;
                let bytes = &self.values.0[from..from + value.len()];
                request[value].copy_from_slice(bytes);
            }
        }
        count * length
    }
}
