//! What the corpus as a whole asks for: gauges from the gold, the surest of each type, balance,
//! negatives at their share. Documents are weighed one by one and wait on the disk; in memory there
//! are two bytes a document, and the lots of those that say nothing.

use super::calibrate::Judged;
use super::gauge::{Calibration, Gauge, gauges};
use super::item::{Cause, Kind, Weighed};
use super::rules::Rules;
use super::settle::{Fate, Settled};
use super::tally::{Audit, Tally};
use crate::config::Mode;
use crate::ie::Schema;
use crate::store::{Scratch, StoreError};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Why nothing can be chosen.
#[derive(Debug, thiserror::Error)]
pub enum SiftError {
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was asked for cannot be had; begins with its code.
    #[error("{0}")]
    Refused(String),
}

/// Weighed documents, in order.
pub struct Sift<'a> {
    schema: &'a Schema,
    rules: &'a Rules,
    scratch: Scratch,
    /// Set from outside; [`Sift::rule_out`].
    causes: Vec<Option<Cause>>,
    /// The documents with gold that drew the lowest lots.
    sample: BinaryHeap<(u64, usize)>,
}

/// What was chosen.
pub struct Chosen {
    /// For each kind of item.
    pub gauges: [Gauge; 3],
    /// What the gold says of the scores; empty where nothing was calibrated.
    pub calibrations: Vec<Calibration>,
    /// Of each document, why it is left out; `None` if it is taught.
    pub causes: Vec<Option<Cause>>,
    /// Documents whose question about relations is left out.
    pub unasked: BTreeSet<usize>,
    /// In numbers.
    pub tally: Tally,
}

impl<'a> Sift<'a> {
    /// Nothing weighed yet; what waits is written to `scratch`.
    pub fn new(schema: &'a Schema, rules: &'a Rules, scratch: Scratch) -> Sift<'a> {
        Sift { schema, rules, scratch, causes: Vec::new(), sample: BinaryHeap::new() }
    }

    /// Puts the next document.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn put(&mut self, weighed: &Weighed) -> Result<(), StoreError> {
        if weighed.gold.is_some() && weighed.cause.is_none() && self.rules.calibration.is_some() {
            self.sample.push((weighed.lot, self.causes.len()));
            if self.sample.len() > self.rules.calibration_documents {
                self.sample.pop();
            }
        }
        self.causes.push(None);
        self.scratch.put(&weighed.bytes())
    }

    /// Leaves a document out, for a reason that another stage knows: a copy, a leak. The first reason
    /// stands. To be called between the last [`Sift::put`] and [`Sift::choose`].
    pub fn rule_out(&mut self, document: usize, cause: Cause) {
        if let Some(known) = self.causes.get_mut(document) {
            known.get_or_insert(cause);
        }
    }

    /// Decides about every document.
    ///
    /// # Errors
    /// If the disk fails, a target is out of reach (`E305`), or a type has too few documents (`E306`).
    pub fn choose(mut self) -> Result<Chosen, SiftError> {
        let sample: BTreeSet<usize> = self.sample.iter().map(|(_, document)| *document).collect();
        let (gauges, calibrations) = self.gauged(&sample)?;
        // ── each document by itself ──
        let mut causes = std::mem::take(&mut self.causes);
        self.each(&gauges, |document, _, settled| {
            if let Err(cause) = settled.document {
                causes[document].get_or_insert(cause);
            }
        })?;
        // ── the corpus ──
        if let Mode::CasesPerType(cases) = self.rules.mode {
            self.surest(cases, &gauges, &mut causes)?;
        }
        if let Some(ratio) = self.rules.max_type_ratio {
            self.balance(ratio, &gauges, &mut causes)?;
        }
        self.cap_negatives(&gauges, &mut causes)?;
        let unasked = self.unasked(&gauges, &causes)?;
        // ── what it comes to ──
        let tally = self.tally(&gauges, &causes, &unasked, &sample)?;
        tally.check(self.rules.min_documents_per_type).map_err(SiftError::Refused)?;
        Ok(Chosen { gauges, calibrations, causes, unasked, tally })
    }

    /// Gives every document with its own decision to `take`.
    fn each(&mut self, gauges: &[Gauge; 3], mut take: impl FnMut(usize, &Weighed, &Settled)) -> Result<(), StoreError> {
        let rules = self.rules;
        self.scratch.each(|document, bytes| {
            let weighed = Weighed::read(bytes).expect("only Weighed::bytes is put");
            take(document, &weighed, &Settled::of(&weighed, gauges, rules));
            Ok(())
        })
    }

    fn gauged(&mut self, sample: &BTreeSet<usize>) -> Result<([Gauge; 3], Vec<Calibration>), SiftError> {
        let (mut judged, mut scores): ([Vec<Judged>; 3], [Vec<f64>; 3]) = Default::default();
        let wants_scores = self.rules.share_kept.is_some();
        if wants_scores || !sample.is_empty() {
            let causes = &self.causes;
            self.scratch.each(|document, bytes| -> Result<(), StoreError> {
                let weighed = Weighed::read(bytes).expect("only Weighed::bytes is put");
                if weighed.cause.is_some() || causes[document].is_some() {
                    return Ok(());
                }
                let sampled = sample.contains(&document);
                for item in weighed.items.iter().filter(|item| item.ruled_out.is_none()) {
                    let (Some(score), at) = (item.score, item.kind as usize) else { continue };
                    if wants_scores {
                        scores[at].push(score);
                    }
                    if let (true, Some(right)) = (sampled, item.right) {
                        judged[at].push(Judged { score, right, group: weighed.lot });
                    }
                }
                Ok(())
            })?;
        }
        gauges(self.rules, &judged, &mut scores).map_err(SiftError::Refused)
    }

    /// The paper's template fine-tuning (CROSSAGENTIE, section 3.5): the surest documents of each
    /// type; a document counts for every type that it holds. Documents with nothing in them stay.
    fn surest(&mut self, cases: usize, gauges: &[Gauge; 3], causes: &mut [Option<Cause>]) -> Result<(), StoreError> {
        let mut heaps: BTreeMap<(Kind, u16), BinaryHeap<Worst>> = BTreeMap::new();
        let mut full = Vec::new();
        self.each(gauges, |document, weighed, settled| {
            let Ok(confidence) = settled.document else { return };
            if causes[document].is_some() || settled.is_empty() {
                return;
            }
            full.push(document as u32);
            for label in labels(weighed, settled) {
                let heap = heaps.entry(label).or_default();
                heap.push(Worst { confidence, document });
                if heap.len() > cases {
                    heap.pop();
                }
            }
        })?;
        let chosen: BTreeSet<usize> = heaps.into_values().flatten().map(|one| one.document).collect();
        for document in full.into_iter().map(|document| document as usize) {
            if !chosen.contains(&document) {
                causes[document] = Some(Cause::NotSurest);
            }
        }
        Ok(())
    }

    /// Draws lots among the documents of frequent types: each stays with the chance that the rarest
    /// of its types has, which is 1 for a type below the ratio.
    fn balance(&mut self, ratio: f64, gauges: &[Gauge; 3], causes: &mut [Option<Cause>]) -> Result<(), StoreError> {
        let mut counts: BTreeMap<(Kind, u16), usize> = BTreeMap::new();
        self.each(gauges, |document, weighed, settled| {
            if causes[document].is_none() {
                labels(weighed, settled).into_iter().for_each(|label| *counts.entry(label).or_default() += 1);
            }
        })?;
        let Some(rarest) = counts.values().min().copied() else { return Ok(()) };
        let most = ratio * rarest as f64;
        self.each(gauges, |document, weighed, settled| {
            let chances = labels(weighed, settled).into_iter().map(|label| most / counts[&label] as f64);
            let chance = if causes[document].is_none() {
                chances.fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))))
            } else {
                None
            };
            // The complement of the lot: the lowest lots among the empty are kept, for another reason.
            if chance.is_some_and(|chance| (!weighed.lot >> 11) as f64 / (1u64 << 53) as f64 >= chance) {
                causes[document] = Some(Cause::Balanced);
            }
        })
    }

    /// Keeps at most the share of documents without an entity; which ones is decided by their ids.
    fn cap_negatives(&mut self, gauges: &[Gauge; 3], causes: &mut [Option<Cause>]) -> Result<(), StoreError> {
        let (schema, rules, share) = (self.schema, self.rules, self.rules.negatives_share);
        let (mut full, mut empty) = (0, Vec::new());
        self.each(gauges, |document, weighed, settled| {
            if causes[document].is_none() {
                match settled.has_no_entity(weighed, schema, rules) {
                    true => empty.push((weighed.lot, document as u32)),
                    false => full += 1,
                }
            }
        })?;
        for document in beyond(empty, full, share) {
            causes[document] = Some(Cause::Negative);
        }
        Ok(())
    }

    /// The documents whose question about relations has an empty answer and is beyond the share.
    fn unasked(&mut self, gauges: &[Gauge; 3], causes: &[Option<Cause>]) -> Result<BTreeSet<usize>, StoreError> {
        let (schema, rules, share) = (self.schema, self.rules, self.rules.negatives_share);
        let (mut full, mut empty) = (0, Vec::new());
        self.each(gauges, |document, weighed, settled| {
            if causes[document].is_none() {
                match settled.relations(weighed, schema, rules) {
                    Some(false) => empty.push((weighed.lot, document as u32)),
                    Some(true) => full += 1,
                    None => {}
                }
            }
        })?;
        Ok(beyond(empty, full, share).collect())
    }

    fn tally(
        &mut self,
        gauges: &[Gauge; 3],
        causes: &[Option<Cause>],
        unasked: &BTreeSet<usize>,
        sample: &BTreeSet<usize>,
    ) -> Result<Tally, StoreError> {
        let (schema, rules) = (self.schema, self.rules);
        let mut tally = Tally { capped: unasked.len(), ..Tally::default() };
        let (mut unseen, mut seen) = (Audit::default(), Audit::default());
        self.each(gauges, |document, weighed, settled| {
            let cause = causes[document];
            tally.add(schema, weighed, settled, cause);
            let audit = if sample.contains(&document) { &mut seen } else { &mut unseen };
            audit.add(weighed, settled, cause);
            if cause.is_none() {
                let asked = settled.relations(weighed, schema, rules).is_some() && !unasked.contains(&document);
                tally.lines += 1 + usize::from(asked);
                tally.empty_answers += usize::from(settled.has_no_entity(weighed, schema, rules));
            }
        })?;
        // On the documents that the curve was fitted on only where there are no others.
        tally.audit = [unseen, Audit { fitted: true, ..seen }].into_iter().find(|audit| audit.documents > 0);
        Ok(tally)
    }
}

/// The types of the kept items.
fn labels(weighed: &Weighed, settled: &Settled) -> BTreeSet<(Kind, u16)> {
    let kept = weighed.items.iter().zip(&settled.fates).filter(|(_, fate)| **fate == Fate::Kept);
    kept.map(|(item, _)| (item.kind, item.label)).collect()
}

/// The empty ones that are too many: at most `share` of all may be empty, and the lowest lots are.
fn beyond(mut empty: Vec<(u64, u32)>, full: usize, share: f64) -> impl Iterator<Item = usize> {
    let room = if share >= 1.0 { usize::MAX } else { (full as f64 * share / (1.0 - share)).floor() as usize };
    empty.sort_unstable();
    empty.into_iter().skip(room).map(|(_, document)| document as usize)
}

/// A candidate for the surest; the greatest is the first to go.
#[derive(PartialEq)]
struct Worst {
    confidence: f64,
    document: usize,
}

impl Eq for Worst {}

impl Ord for Worst {
    fn cmp(&self, other: &Worst) -> Ordering {
        other.confidence.total_cmp(&self.confidence).then(self.document.cmp(&other.document))
    }
}

impl PartialOrd for Worst {
    fn partial_cmp(&self, other: &Worst) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
