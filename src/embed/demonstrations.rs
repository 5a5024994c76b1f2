//! N-way K-shot (CooperKGC, section 4.2): for each asked type the documents of a pool that hold the
//! type and whose vectors stand nearest, by Euclidean distance, to that of the text. Never the text
//! itself: a document with its id or its words is passed over and counted.

use super::cache::{Cache, flat};
use super::pool::{Pool, bare};
use super::{EmbedError, Encoder};
use crate::ie::{Document, Schema};
use rayon::prelude::*;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a label is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A type of entity.
    Entity,
    /// A type of relation.
    Relation,
    /// A type of event.
    Event,
}

/// How many demonstrations there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shots {
    /// Documents for each type; with 0 nothing is ever shown.
    pub shots: usize,
    /// Types that get any, those with the nearest documents first. `None`: all.
    pub ways: Option<usize>,
}

/// Vectors of asked texts that are remembered; each takes some KiB.
const REMEMBERED: usize = 4096;

/// A pool of documents with gold, ready to give the nearest ones.
pub struct Demonstrations {
    pool: Pool,
    vectors: Vec<f32>,
    dimensions: usize,
    encoder: Box<dyn Encoder>,
    shots: Shots,
    asked: Mutex<HashMap<u128, Arc<Vec<f32>>>>,
    passed_over: AtomicUsize,
}

/// A document of the pool and how far it is: the square of the distance, which keeps the order.
#[derive(Clone, Copy, Debug)]
struct Near {
    far: f32,
    at: u32,
}

impl Demonstrations {
    /// Reads a pool and encodes what of it can be chosen, or finds the vectors in `cache`. `told`
    /// hears how many of the texts are encoded, and says whether to go on.
    ///
    /// # Errors
    /// If the pool cannot be read, has a document without gold, or holds no type of the schema; if
    /// the encoder fails; if the cache cannot be written.
    pub fn open(
        pool: &Path,
        schema: &Schema,
        encoder: Box<dyn Encoder>,
        shots: Shots,
        cache: &Path,
        told: &dyn Fn(usize, usize) -> bool,
    ) -> Result<Demonstrations, EmbedError> {
        let pool = Pool::read(pool, schema)?;
        let texts: Vec<&str> = pool.documents.iter().map(|document| document.text.as_str()).collect();
        let cache = Cache { folder: cache, encoder: encoder.as_ref() };
        // With 0 shots nobody is nearest: nothing is encoded, not even a text.
        let (vectors, dimensions) = if shots.shots == 0 { (Vec::new(), 0) } else { cache.vectors(&texts, told)? };
        let (asked, passed_over) = (Mutex::default(), AtomicUsize::new(0));
        Ok(Demonstrations { pool, vectors, dimensions, encoder, shots, asked, passed_over })
    }

    /// Documents that were read, and those among them that hold an asked type.
    pub fn sizes(&self) -> (usize, usize) {
        (self.pool.read, self.pool.documents.len())
    }

    /// Labels that no document of the pool holds: they can have no demonstration.
    pub fn without<'l>(&self, kind: Kind, labels: &[&'l str]) -> Vec<&'l str> {
        labels.iter().copied().filter(|label| !self.pool.with.contains_key(&(kind, (*label).to_owned()))).collect()
    }

    /// How often a document was nearest enough to be looked at, and passed over because it is the
    /// asked text itself: once for each call and document.
    pub fn passed_over(&self) -> usize {
        self.passed_over.load(Ordering::SeqCst)
    }

    /// Encodes texts ahead, all at once, which is faster than one by one; changes no result.
    ///
    /// # Errors
    /// If the encoder fails.
    pub fn prepare(&self, documents: &[Document]) -> Result<(), EmbedError> {
        if self.shots.shots == 0 {
            return Ok(());
        }
        let known = |text: &str| self.remembered().contains_key(&key(text));
        let mut seen = BTreeSet::new();
        let new = documents.iter().map(|document| document.text.as_str());
        let new: Vec<&str> = new.filter(|text| seen.insert(*text) && !known(text)).take(REMEMBERED).collect();
        for texts in new.chunks(64) {
            self.encode(texts)?;
        }
        Ok(())
    }

    /// The demonstrations for a document and the labels of one expert: of each label the nearest
    /// documents, each document once, **the farthest first and the nearest last**, beside the
    /// question. Ties go by id. None with 0 shots.
    ///
    /// # Errors
    /// If the encoder fails.
    pub fn nearest(&self, asked: &Document, kind: Kind, labels: &[&str]) -> Result<Vec<&Document>, EmbedError> {
        if self.shots.shots == 0 || labels.is_empty() || asked.is_blank() {
            return Ok(Vec::new());
        }
        let text = self.vector(&asked.text)?;
        let lists: Vec<&[u32]> = labels
            .iter()
            .filter_map(|label| self.pool.with.get(&(kind, (*label).to_owned())).map(Vec::as_slice))
            .collect();
        let mut candidates: Vec<u32> = lists.concat();
        candidates.sort_unstable();
        candidates.dedup();
        let own = bare(&asked.text);
        let before = candidates.len();
        candidates.retain(|&at| self.pool.texts[at as usize] != own && self.document(at).id != asked.id);
        self.passed_over.fetch_add(before - candidates.len(), Ordering::SeqCst);
        // ── exact: every candidate's distance, in parallel ──
        let far: Vec<f32> = candidates.par_iter().with_min_len(256).map(|&at| self.far(&text, at)).collect();
        let far_of = |at: u32| candidates.binary_search(&at).ok().map(|place| Near { far: far[place], at });
        let mut ways: Vec<Vec<Near>> =
            lists.iter().map(|list| self.best(list.iter().filter_map(|&at| far_of(at)))).collect();
        ways.retain(|way| !way.is_empty());
        // Stable: types that are equally near stay in the order of the labels.
        ways.sort_by(|a, b| self.order(&a[0], &b[0]));
        ways.truncate(self.shots.ways.unwrap_or(usize::MAX));
        let mut chosen = ways.concat();
        chosen.sort_by(|a, b| self.order(a, b));
        let mut texts = BTreeSet::new();
        chosen.retain(|near| texts.insert(self.pool.texts[near.at as usize]));
        Ok(chosen.iter().rev().map(|near| self.document(near.at)).collect())
    }

    /// The nearest of a type, nearest first, no text twice.
    fn best(&self, candidates: impl Iterator<Item = Near>) -> Vec<Near> {
        let mut best: Vec<Near> = Vec::with_capacity(self.shots.shots.min(64) + 1);
        for near in candidates {
            if best.len() == self.shots.shots && best.last().is_some_and(|last| self.order(last, &near).is_le()) {
                continue;
            }
            let text = self.pool.texts[near.at as usize];
            if let Some(same) = best.iter().position(|other| self.pool.texts[other.at as usize] == text) {
                if self.order(&best[same], &near).is_le() {
                    continue;
                }
                best.remove(same);
            }
            let place = best.partition_point(|other| self.order(other, &near).is_lt());
            best.insert(place, near);
            best.truncate(self.shots.shots);
        }
        best
    }

    fn order(&self, a: &Near, b: &Near) -> std::cmp::Ordering {
        a.far.total_cmp(&b.far).then_with(|| self.document(a.at).id.cmp(&self.document(b.at).id))
    }

    fn document(&self, at: u32) -> &Document {
        &self.pool.documents[at as usize]
    }

    /// The square of the Euclidean distance, in sixteen sums that are added in order: the same on
    /// every machine.
    fn far(&self, text: &[f32], at: u32) -> f32 {
        let other = &self.vectors[at as usize * self.dimensions..][..self.dimensions];
        let mut sums = [0.0f32; 16];
        for (a, b) in text.chunks(16).zip(other.chunks(16)) {
            for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                *sum += (a - b) * (a - b);
            }
        }
        sums.iter().sum()
    }

    /// The vector of a text, from memory where it was asked for lately.
    fn vector(&self, text: &str) -> Result<Arc<Vec<f32>>, EmbedError> {
        if let Some(known) = self.remembered().get(&key(text)) {
            return Ok(Arc::clone(known));
        }
        let mut vectors = self.encode(&[text])?;
        vectors.pop().ok_or_else(|| EmbedError::Encoder("no vector for a text".into()))
    }

    fn encode(&self, texts: &[&str]) -> Result<Vec<Arc<Vec<f32>>>, EmbedError> {
        let (numbers, long) = flat(texts.len(), self.encoder.encode(texts)?)?;
        if long != self.dimensions {
            let pool = self.dimensions;
            return Err(EmbedError::Encoder(format!(
                "a vector of {long} numbers, where those of the pool have {pool}"
            )));
        }
        let vectors: Vec<Arc<Vec<f32>>> = numbers.chunks(long).map(|vector| Arc::new(vector.to_vec())).collect();
        let mut remembered = self.remembered();
        for (text, vector) in texts.iter().zip(&vectors) {
            if remembered.len() >= REMEMBERED {
                remembered.clear();
            }
            remembered.insert(key(text), Arc::clone(vector));
        }
        Ok(vectors)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<u128, Arc<Vec<f32>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The identity of a text as it stands.
fn key(text: &str) -> u128 {
    let hash = crate::store::hash_bytes(text.as_bytes());
    u128::from_str_radix(&hash[..32], 16).expect("a hash is hexadecimal")
}

#[cfg(test)]
#[path = "demonstrations_tests.rs"]
mod tests;
