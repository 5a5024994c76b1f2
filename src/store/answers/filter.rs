//! Which keys a file surely does not hold, told without looking: B. H. Bloom, "Space/Time Trade-offs
//! in Hash Coding with Allowable Errors" (CACM 13, 1970). Of fixed size, whatever the file's.

use super::record::Key;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits: 8 MiB. Of a million keys one absent key in 87 000 is looked for in vain, of ten million one
/// in 25.
const BITS: usize = 1 << 26;

/// A set of keys that may seem to hold more than it does, never less.
pub(super) struct Filter {
    words: Vec<AtomicU64>,
}

impl Filter {
    /// The empty set.
    pub fn new() -> Filter {
        Filter { words: (0..BITS / 64).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds a key.
    pub fn add(&self, key: &Key) {
        for (word, bit) in places(key) {
            self.words[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether the key may be there.
    pub fn may_hold(&self, key: &Key) -> bool {
        places(key).into_iter().all(|(word, bit)| self.words[word].load(Ordering::Relaxed) & bit != 0)
    }
}

/// Four places, of four parts of the key: it is a hash already.
fn places(key: &Key) -> [(usize, u64); 4] {
    [0, 1, 2, 3].map(|part| {
        let bytes = [key[4 * part], key[4 * part + 1], key[4 * part + 2], key[4 * part + 3]];
        let bit = u32::from_le_bytes(bytes) as usize % BITS;
        (bit / 64, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::hash::digest;

    #[test]
    fn what_was_added_is_held_and_little_else() {
        let (filter, key) = (Filter::new(), |at: u32| digest(&at.to_le_bytes()));
        (0..100_000).for_each(|at| filter.add(&key(at)));
        assert!((0..100_000).all(|at| filter.may_hold(&key(at))));
        // (1 - exp(-4 * 100 000 / 2^26))^4 = 1.2e-9 of the absent ones are expected to seem held.
        assert_eq!((100_000..200_000).filter(|at| filter.may_hold(&key(*at))).count(), 0);
    }
}
