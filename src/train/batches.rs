//! Which items stand together: groups that share a prompt, the order of an epoch, the windows of
//! its steps, and the micro-batches of a window.
//!
//! A window's items depend on the seed, the epoch and the number of items per step, never on how
//! that number is split into micro-batches and accumulation; so every split gives the same losses.

use super::preflight::TokenizedItem;
use super::{Purpose, stream};
use rand::seq::SliceRandom;
use std::collections::BTreeMap;

/// Tokens that a group must share beyond what everybody around it shares.
const SHARED: usize = 32;
/// Items of one group and of similar length that stay together in the order of an epoch.
const CHUNK: usize = 8;
/// Chunks among which items are sorted by length. One: across more, a step would see only short items,
/// and short answers are the empty ones; a student so taught answers `{}` to everything (dev F1 45 to 12
/// in 27 steps).
const POOL: usize = 1;
/// Prompts that branch more often than this are not looked into further.
const DEPTH: usize = 64;

/// The order in which a run sees its items.
pub(super) struct Order {
    seed: u64,
    /// Items of one step.
    size: usize,
    /// Tokens of each item.
    lengths: Vec<usize>,
    groups: Vec<Vec<usize>>,
    group_of: Vec<usize>,
    /// An epoch and its windows.
    epoch: (usize, Vec<Vec<usize>>),
}

impl Order {
    pub fn new(items: &[TokenizedItem], seed: u64, size: usize) -> Order {
        let prompts: Vec<&[u32]> = items.iter().map(|item| &item.ids[..item.supervised.start]).collect();
        let groups = groups(&prompts);
        let mut group_of = vec![0; prompts.len()];
        for (group, members) in groups.iter().enumerate() {
            members.iter().for_each(|i| group_of[*i] = group);
        }
        let lengths: Vec<usize> = items.iter().map(|item| item.ids.len()).collect();
        let epoch = (0, windows(&groups, &lengths, seed, 0, size));
        Order { seed, size, lengths, groups, group_of, epoch }
    }

    /// Steps that see every item once.
    pub fn steps_per_epoch(&self) -> usize {
        self.lengths.len().div_ceil(self.size)
    }

    /// Items of a step, counting from 0.
    pub fn window(&mut self, step: usize) -> &[usize] {
        let (epoch, offset) = (step / self.steps_per_epoch(), step % self.steps_per_epoch());
        if self.epoch.0 != epoch {
            self.epoch = (epoch, windows(&self.groups, &self.lengths, self.seed, epoch, self.size));
        }
        &self.epoch.1[offset]
    }

    /// Cuts a window into forwards of at most `most` items.
    pub fn micro_batches(&self, window: &[usize], most: usize) -> Vec<Vec<usize>> {
        micro_batches(window, &self.group_of, &self.lengths, most)
    }
}

/// Groups items by what their prompts begin with. Small remains share a group.
fn groups(prompts: &[&[u32]]) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let rest = collect(prompts, (0..prompts.len()).collect(), 0, 0, 0, &mut found);
    if !rest.is_empty() {
        found.push(rest);
    }
    found.sort();
    found
}

/// Splits groups off `items`, which agree on `known` tokens and would share `base` of them anyway;
/// returns the rest.
fn collect(
    prompts: &[&[u32]],
    items: Vec<usize>,
    base: usize,
    known: usize,
    depth: usize,
    found: &mut Vec<Vec<usize>>,
) -> Vec<usize> {
    // Two batches of its own are the least that pays for a group.
    if items.len() < 2 * CHUNK || depth == DEPTH {
        return items;
    }
    let first = prompts[items[0]];
    let agree =
        |i: &usize| known + first[known..].iter().zip(&prompts[*i][known..]).take_while(|(a, b)| a == b).count();
    let shared = items.iter().map(agree).min().unwrap_or(known);
    let worth = shared >= base + SHARED;
    let mut parts: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
    for i in items {
        parts.entry(prompts[i].get(shared).copied()).or_default().push(i);
    }
    let mut rest = parts.remove(&None).unwrap_or_default();
    for part in parts.into_values() {
        rest.extend(collect(prompts, part, if worth { shared } else { base }, shared, depth + 1, found));
    }
    rest.sort_unstable();
    if worth && !rest.is_empty() {
        found.push(std::mem::take(&mut rest));
    }
    rest
}

/// The windows of one epoch, every item once; a function of its arguments alone.
fn windows(groups: &[Vec<usize>], lengths: &[usize], seed: u64, epoch: usize, window: usize) -> Vec<Vec<usize>> {
    let mut rng = stream(seed, Purpose::Order, epoch as u64, 0);
    let chunk = CHUNK.min(window);
    let mut chunks = Vec::new();
    for group in groups {
        let mut order = group.clone();
        order.shuffle(&mut rng);
        for pool in order.chunks_mut(POOL * chunk) {
            pool.sort_by_key(|i| lengths[*i]);
            chunks.extend(pool.chunks(chunk).map(<[usize]>::to_vec));
        }
    }
    chunks.shuffle(&mut rng);
    chunks.concat().chunks(window).map(<[usize]>::to_vec).collect()
}

/// Cuts a window into forwards of at most `most` items, each of one group and of similar length.
fn micro_batches(window: &[usize], group_of: &[usize], lengths: &[usize], most: usize) -> Vec<Vec<usize>> {
    let mut order = window.to_vec();
    order.sort_by_key(|i| (group_of[*i], lengths[*i], *i));
    let mut batches = Vec::new();
    for run in order.chunk_by(|a, b| group_of[*a] == group_of[*b]) {
        let count = run.len().div_ceil(most);
        // Even parts: nine items in batches of at most eight are five and four.
        let cut = |part: usize| part * run.len() / count;
        batches.extend((0..count).map(|part| run[cut(part)..cut(part + 1)].to_vec()));
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` prompts that begin with `shared` copies of `task` and differ behind.
    fn prompts(task: u32, shared: usize, count: u32) -> Vec<Vec<u32>> {
        let own = |i: u32| (0..5).map(move |j| 1000 + (i * 7 + j) % 90);
        (0..count).map(|i| [1, 2, 3].into_iter().chain(vec![task; shared]).chain(own(i)).collect()).collect()
    }

    #[test]
    fn items_are_grouped_by_the_instruction_they_share() {
        let all = [prompts(10, 40, 20), prompts(11, 50, 16), prompts(12, 40, 3), prompts(13, 8, 30)].concat();
        let borrowed: Vec<&[u32]> = all.iter().map(Vec::as_slice).collect();
        let groups = groups(&borrowed);
        let range = |from: usize, to: usize| (from..to).collect::<Vec<_>>();
        // Three items are too few, and eight shared tokens too short, for a group of their own.
        assert_eq!(groups, [range(0, 20), range(20, 36), range(36, 69)]);
    }

    #[test]
    fn a_group_inside_a_group_is_found() {
        let mut all = prompts(10, 40, 20);
        all.extend(prompts(10, 40, 16).iter().map(|p| [&p[..43], &[77; 40], &p[43..]].concat()));
        let borrowed: Vec<&[u32]> = all.iter().map(Vec::as_slice).collect();
        assert_eq!(groups(&borrowed), [(0..20).collect::<Vec<_>>(), (20..36).collect()]);
        assert_eq!(groups(&[&[5, 6], &[5, 6]]), [[0, 1]]);
        assert!(groups(&[]).is_empty());
    }

    #[test]
    fn an_epoch_holds_every_item_once_and_depends_on_seed_and_epoch_alone() {
        let groups = [(0..37).collect::<Vec<_>>(), (37..50).collect()];
        let lengths: Vec<usize> = (0..50).map(|i| 10 + i * 7 % 31).collect();
        let order = |seed, epoch| windows(&groups, &lengths, seed, epoch, 8);
        let mut all = order(1, 0).concat();
        all.sort_unstable();
        assert_eq!(all, (0..50).collect::<Vec<_>>());
        assert_eq!(order(1, 0).iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 8, 8, 8, 8, 2]);
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }

    #[test]
    fn micro_batches_hold_one_group_and_similar_lengths() {
        let group_of = [0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0];
        let lengths = [9, 5, 8, 4, 7, 6, 5, 4, 3, 2, 1];
        let batches = micro_batches(&(0..11).collect::<Vec<_>>(), &group_of, &lengths, 8);
        assert_eq!(batches, [vec![10, 9, 8, 7], vec![6, 5, 4, 2, 0], vec![3, 1]]);
    }
}
