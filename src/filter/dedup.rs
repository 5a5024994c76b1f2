//! Texts that stand in the training split more than once: the same but for white space, or nearly
//! (MinHash, Broder 1997, with locality-sensitive hashing by bands, Indyk and Motwani 1998).
//!
//! Some 30 bytes of memory a document, whatever its length: keys wait in files without a name and are sorted band
//! by band. Near copies of near copies are one group; its first text is kept.

use super::shingles::{joined, mixed, shingles, words};
use crate::store::{Overflow, StoreError, digest};
use rayon::prelude::*;
use std::path::Path;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Permutations: the estimate of a share `J` is off by `sqrt(J (1 - J) / 128)`, 0.03 at 0.85.
const LANES: usize = 128;
/// Of two texts that are as near as the threshold says, the bands bring together at least this share.
const RECALL: f64 = 0.99;
/// Texts of one band that others are compared with; more of them share a key only by a common phrase.
const LEADERS: usize = 32;
/// The key of a text without words, which is near to nothing.
const WORDLESS: u64 = 0;

/// Finds the texts to leave out. Sketches may be made side by side; they are added in order.
#[derive(Debug)]
pub struct Deduper {
    threshold: f64,
    sketcher: Sketcher,
    ordinals: Vec<u32>,
    digests: Overflow,
    bands: Vec<Overflow>,
    lanes: Overflow,
}

/// Makes sketches, and nothing else.
#[derive(Clone, Debug)]
pub struct Sketcher {
    /// Lanes of a band.
    rows: usize,
    /// Multiplier (odd) and summand of each permutation.
    permutations: Vec<(u64, u64)>,
}

/// What is remembered of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    digest: [u8; 16],
    /// Sixteen bits of each minimum.
    lanes: Vec<u16>,
    /// One for each band.
    keys: Vec<u64>,
}

/// How a text repeats another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Likeness {
    /// The same text but for white space and the encoding of accents.
    Exact,
    /// Nearly: the estimated share of common shingles (Jaccard) with the one that is kept. Below
    /// the threshold where a third text between the two joined them.
    Near(f64),
}

/// A text to leave out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Duplicate {
    /// Its ordinal.
    pub dropped: u32,
    /// The first text of its group.
    pub kept: u32,
    /// How it repeats it.
    pub likeness: Likeness,
}

impl Deduper {
    /// A deduper that takes texts for near copies from this share of common shingles on; its files lie in
    /// `folder` while it lives. A threshold of 0 looks for exact copies alone.
    ///
    /// # Errors
    /// If the files cannot be made.
    pub fn new(threshold: f64, folder: &Path) -> Result<Deduper, StoreError> {
        let rows = if threshold > 0.0 { rows(threshold) } else { LANES + 1 };
        let permutation = |lane: usize| (mixed(2 * lane as u64 + 1) | 1, mixed(2 * lane as u64 + 2));
        let permutations = (0..if threshold > 0.0 { LANES } else { 0 }).map(permutation).collect();
        Ok(Deduper {
            threshold,
            sketcher: Sketcher { rows, permutations },
            ordinals: Vec::new(),
            digests: Overflow::within(folder)?,
            bands: (0..LANES / rows).map(|_| Overflow::within(folder)).collect::<Result<_, _>>()?,
            lanes: Overflow::within(folder)?,
        })
    }

    /// What is to be remembered of a text.
    pub fn sketch(&self, text: &str) -> Sketch {
        self.sketcher.sketch(text)
    }

    /// Makes the same sketches elsewhere.
    pub fn sketcher(&self) -> Sketcher {
        self.sketcher.clone()
    }

    /// Adds the next text. Ordinals grow.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn add(&mut self, ordinal: u32, sketch: Sketch) -> Result<(), StoreError> {
        debug_assert!(self.ordinals.last().is_none_or(|last| *last < ordinal), "the first of a group is kept");
        self.ordinals.push(ordinal);
        self.digests.append(&sketch.digest)?;
        for (band, key) in self.bands.iter_mut().zip(&sketch.keys) {
            band.append(&key.to_le_bytes())?;
        }
        let lanes: Vec<u8> = sketch.lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
        self.lanes.append(&lanes)
    }

    /// The texts to leave out, in order.
    ///
    /// # Errors
    /// If the files cannot be read back.
    pub fn duplicates(mut self) -> Result<Vec<Duplicate>, StoreError> {
        let mut groups = Groups { first: (0..self.ordinals.len() as u32).collect() };
        let mut keys: Vec<([u8; 16], u32)> = Vec::with_capacity(self.ordinals.len());
        self.digests.each(|digest: [u8; 16]| keys.push((digest, keys.len() as u32)))?;
        keys.par_sort_unstable();
        let mut copies = vec![false; keys.len()];
        for same in keys.chunk_by(|a, b| a.0 == b.0) {
            for (_, later) in &same[1..] {
                groups.join(same[0].1, *later);
                copies[*later as usize] = true;
            }
        }
        drop(keys);
        self.near(&mut groups, &copies)?;
        let mut found = Vec::new();
        for (at, copy) in copies.into_iter().enumerate() {
            let first = groups.first_of(at as u32);
            if first as usize == at {
                continue;
            }
            let likeness = match copy {
                true => Likeness::Exact,
                false => Likeness::Near(self.likeness(first, at as u32)?),
            };
            found.push(Duplicate { dropped: self.ordinals[at], kept: self.ordinals[first as usize], likeness });
        }
        Ok(found)
    }

    /// Joins texts that share the key of a band and are as near as the threshold says.
    fn near(&mut self, groups: &mut Groups, copies: &[bool]) -> Result<(), StoreError> {
        for mut band in std::mem::take(&mut self.bands) {
            let (mut keys, mut at) = (Vec::<(u64, u32)>::new(), 0);
            band.each(|key: [u8; 8]| {
                let key = u64::from_le_bytes(key);
                if key != WORDLESS && !copies[at as usize] {
                    keys.push((key, at));
                }
                at += 1;
            })?;
            keys.par_sort_unstable();
            for same in keys.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
                let mut leaders: Vec<u32> = Vec::new();
                'texts: for (_, text) in same {
                    for leader in &leaders {
                        if groups.first_of(*leader) == groups.first_of(*text) {
                            continue 'texts;
                        }
                    }
                    for leader in &leaders {
                        if self.likeness(*leader, *text)? >= self.threshold {
                            groups.join(*leader, *text);
                            continue 'texts;
                        }
                    }
                    if leaders.len() < LEADERS {
                        leaders.push(*text);
                    }
                }
            }
        }
        Ok(())
    }

    /// The estimated share of common shingles: that of equal lanes.
    fn likeness(&mut self, one: u32, two: u32) -> Result<f64, StoreError> {
        let (mut a, mut b) = ([0; 2 * LANES], [0; 2 * LANES]);
        self.lanes.read_at(u64::from(one) * a.len() as u64, &mut a)?;
        self.lanes.read_at(u64::from(two) * b.len() as u64, &mut b)?;
        Ok(equal_share(a.chunks_exact(2), b.chunks_exact(2)))
    }
}

impl Sketcher {
    /// What is to be remembered of a text.
    pub fn sketch(&self, text: &str) -> Sketch {
        let whole = digest(normal(text).as_bytes());
        let digest = std::array::from_fn(|at| whole[at]);
        let (mut lanes, mut keys) = (Vec::new(), Vec::new());
        if !self.permutations.is_empty() {
            let shingles = shingles(&words(text));
            let least = |&(factor, summand): &(u64, u64)| {
                let permuted = shingles.iter().map(|shingle| factor.wrapping_mul(*shingle).wrapping_add(summand));
                permuted.min().unwrap_or(u64::MAX)
            };
            let minima: Vec<u64> = self.permutations.iter().map(least).collect();
            lanes = minima.iter().map(|least| (mixed(*least) >> 48) as u16).collect();
            let key = |band: &[u64]| band.iter().fold(1, |key, least| joined(key, *least)).max(WORDLESS + 1);
            keys = minima.chunks_exact(self.rows).map(key).collect();
            if shingles.is_empty() {
                keys.fill(WORDLESS);
            }
        }
        Sketch { digest, lanes, keys }
    }
}

fn equal_share<T: PartialEq>(one: impl Iterator<Item = T>, two: impl Iterator<Item = T>) -> f64 {
    one.zip(two).filter(|(a, b)| a == b).count() as f64 / LANES as f64
}

/// The most lanes of a band with which `LANES` of them still bring together the texts at the
/// threshold: more lanes, fewer texts that meet by chance.
fn rows(threshold: f64) -> usize {
    (1..=LANES).rev().find(|rows| meeting(threshold, *rows) >= RECALL).unwrap_or(1)
}

/// How likely it is that two texts with this share of common shingles share a band's key: the S-curve.
fn meeting(share: f64, rows: usize) -> f64 {
    1.0 - (1.0 - share.powi(rows as i32)).powi((LANES / rows) as i32)
}

/// The text in composed form, runs of white space as one space, none at its ends.
fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !normal.is_empty() {
            normal.push(' ');
        }
        match is_nfc_quick(word.chars()) {
            IsNormalized::Yes => normal.push_str(word),
            _ => normal.extend(word.nfc()),
        }
    }
    normal
}

/// Disjoint sets of texts, each called by its first.
struct Groups {
    first: Vec<u32>,
}

impl Groups {
    fn first_of(&mut self, text: u32) -> u32 {
        let mut at = text;
        while self.first[at as usize] != at {
            // Halves the way for the next who asks.
            self.first[at as usize] = self.first[self.first[at as usize] as usize];
            at = self.first[at as usize];
        }
        at
    }

    fn join(&mut self, one: u32, two: u32) {
        let (one, two) = (self.first_of(one), self.first_of(two));
        self.first[one.max(two) as usize] = one.min(two);
    }
}

#[cfg(test)]
mod tests;
