//! Vectors that were computed once stay on disk, block by block of texts, under a name that the
//! encoder and the texts decide: a pool that grew at its end, and one whose encoding was
//! interrupted, go on from the blocks that stand. What is damaged is computed anew.

use super::config::read_bytes;
use super::{EmbedError, Encoder};
use crate::store::{hash_bytes, write_atomic};
use std::path::{Path, PathBuf};

/// Texts of a block: a second's work or some of an encoder in this process.
const BLOCK: usize = 512;
/// The first bytes of a file of vectors.
const MAGIC: &[u8; 16] = b"understudy vec 1";
/// Longest vector that is kept.
const MOST_DIMENSIONS: usize = 1 << 16;

/// Where vectors of one encoder are kept.
pub(super) struct Cache<'a> {
    pub folder: &'a Path,
    pub encoder: &'a dyn Encoder,
}

impl Cache<'_> {
    /// The vectors of all texts, one behind the other, and how long one is. `told` hears how many of
    /// the texts are done, and says whether to go on.
    pub fn vectors(
        &self,
        texts: &[&str],
        told: &dyn Fn(usize, usize) -> bool,
    ) -> Result<(Vec<f32>, usize), EmbedError> {
        let identity = self.encoder.identity();
        let (mut all, mut dimensions) = (Vec::new(), None);
        for (at, block) in texts.chunks(BLOCK).enumerate() {
            let path = self.path(&identity, block);
            let (numbers, long) = match self.stored(&path, block.len())? {
                Some(stored) => stored,
                None => {
                    let encoded = self.encoder.encode(block)?;
                    let computed = flat(block.len(), encoded)?;
                    write_atomic(&path, &packed(&computed))?;
                    computed
                }
            };
            if *dimensions.get_or_insert(long) != long {
                let before = dimensions.unwrap_or_default();
                return Err(EmbedError::Encoder(format!("vectors of {before} numbers, and then of {long}")));
            }
            if at == 0 {
                all.reserve_exact(long * texts.len());
            }
            all.extend(numbers);
            if !told(at * BLOCK + block.len(), texts.len()) {
                return Err(EmbedError::Stopped);
            }
        }
        Ok((all, dimensions.unwrap_or_default()))
    }

    fn path(&self, identity: &str, block: &[&str]) -> PathBuf {
        let mut named = Vec::new();
        for text in block {
            named.extend((text.len() as u64).to_le_bytes());
            named.extend(text.as_bytes());
        }
        let encoder = &hash_bytes(identity.as_bytes())[..16];
        self.folder.join(encoder).join(format!("{}.vec", &hash_bytes(&named)[..32]))
    }

    /// What stands on disk, if it is whole.
    fn stored(&self, path: &Path, count: usize) -> Result<Option<(Vec<f32>, usize)>, EmbedError> {
        let most = (count * MOST_DIMENSIONS * 4 + 256) as u64;
        let Some(bytes) = read_bytes(path, most).ok().flatten() else { return Ok(None) };
        let Some((body, sum)) = bytes.split_last_chunk::<64>() else { return Ok(None) };
        let Some(numbers) = body.strip_prefix(MAGIC) else { return Ok(None) };
        let numbers: Vec<f32> = numbers.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        let whole = hash_bytes(body).as_bytes() == sum && numbers.len().is_multiple_of(count) && !numbers.is_empty();
        Ok(whole.then(|| {
            let long = numbers.len() / count;
            (numbers, long)
        }))
    }
}

fn packed((numbers, _): &(Vec<f32>, usize)) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    let sum = hash_bytes(&bytes);
    bytes.extend(sum.as_bytes());
    bytes
}

/// Checks what an encoder gave for so many texts.
pub(super) fn flat(count: usize, vectors: Vec<Vec<f32>>) -> Result<(Vec<f32>, usize), EmbedError> {
    let fail = |what: String| Err(EmbedError::Encoder(what));
    if vectors.len() != count {
        return fail(format!("{} vectors for {count} texts", vectors.len()));
    }
    let long = vectors.first().map_or(0, Vec::len);
    if !(1..=MOST_DIMENSIONS).contains(&long) {
        return fail(format!("vectors of {long} numbers; expected 1 to {MOST_DIMENSIONS}"));
    }
    if let Some(other) = vectors.iter().find(|vector| vector.len() != long) {
        return fail(format!("vectors of {long} and of {} numbers for texts of one call", other.len()));
    }
    if vectors.iter().flatten().any(|number| !number.is_finite()) {
        return fail("a vector holds a number that is not finite".into());
    }
    Ok((vectors.concat(), long))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Lengths and vowels of texts; counts the texts it was asked for.
    struct Counting(AtomicUsize, &'static str);

    impl Encoder for Counting {
        fn identity(&self) -> String {
            self.1.into()
        }

        fn encode(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            self.0.fetch_add(texts.len(), Ordering::SeqCst);
            Ok(texts.iter().map(|text| vec![text.len() as f32, text.matches('a').count() as f32]).collect())
        }
    }

    fn asked(folder: &Path, encoder: &Counting, texts: &[&str]) -> (Vec<f32>, usize) {
        let before = encoder.0.load(Ordering::SeqCst);
        let (numbers, long) = Cache { folder, encoder }.vectors(texts, &|_, _| true).unwrap();
        assert_eq!((long, numbers.len()), (2, 2 * texts.len()));
        (numbers, encoder.0.load(Ordering::SeqCst) - before)
    }

    #[test]
    fn vectors_are_computed_once_and_a_longer_pool_only_adds() {
        let home = tempfile::tempdir().unwrap();
        let encoder = Counting(AtomicUsize::new(0), "one");
        let texts: Vec<String> = (0..BLOCK + 3).map(|at| "a".repeat(at % 7 + 1)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (first, count) = asked(home.path(), &encoder, &texts);
        assert_eq!(count, BLOCK + 3);
        assert_eq!(asked(home.path(), &encoder, &texts), (first.clone(), 0));
        let longer = [&texts[..], &["b"]].concat();
        let (more, count) = asked(home.path(), &encoder, &longer);
        assert_eq!((count, &more[..first.len()]), (4, &first[..]), "the whole block before it stands");
        let cache = Cache { folder: home.path(), encoder: &encoder };
        let other: Vec<String> = (0..2 * BLOCK).map(|at| format!("other {at}")).collect();
        let other: Vec<&str> = other.iter().map(String::as_str).collect();
        assert!(matches!(cache.vectors(&other, &|_, _| false), Err(EmbedError::Stopped)));
        assert_eq!(asked(home.path(), &encoder, &other).1, BLOCK, "what was done before a stop is kept");
        // Another encoder, and the same letters cut differently, are other texts.
        assert_eq!(asked(home.path(), &Counting(AtomicUsize::new(0), "two"), &["ab", "c"]).1, 2);
        assert_eq!(asked(home.path(), &encoder, &["ab", "c"]).1, 2);
        assert_eq!(asked(home.path(), &encoder, &["a", "bc"]).1, 2);
    }

    #[test]
    fn a_damaged_file_is_computed_anew() {
        let home = tempfile::tempdir().unwrap();
        let encoder = Counting(AtomicUsize::new(0), "one");
        let (good, _) = asked(home.path(), &encoder, &["aa", "b"]);
        let path = Cache { folder: home.path(), encoder: &encoder }.path("one", &["aa", "b"]);
        let bytes = std::fs::read(&path).unwrap();
        let mut bent = bytes.clone();
        bent[20] ^= 1;
        for damaged in [&bytes[..bytes.len() - 1], &bytes[..10], &[], &bent] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(asked(home.path(), &encoder, &["aa", "b"]), (good.clone(), 2));
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        for (vectors, says) in [
            (vec![vec![1.0]], "1 vectors for 2 texts"),
            (vec![vec![], vec![]], "vectors of 0 numbers"),
            (vec![vec![1.0], vec![1.0, 2.0]], "of 1 and of 2 numbers"),
            (vec![vec![1.0], vec![f32::NAN]], "not finite"),
        ] {
            let said = flat(2, vectors).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
        assert_eq!(flat(2, vec![vec![1.0], vec![2.0]]).unwrap(), (vec![1.0, 2.0], 1));
    }
}
