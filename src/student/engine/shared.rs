//! What prompts begin with in common, read once and held.

use super::{Request, Tally};
use crate::student::fused::{Decoder, Memory, Piece};
use std::collections::VecDeque;
use std::sync::Arc;

/// Fewer common tokens are not worth holding.
const FEWEST: usize = 24;
/// Tokens that are held at most, all beginnings together; the least recently used goes first.
const MOST: usize = 8192;
/// Prompts that were asked and may begin like one to come.
const REMEMBERED: usize = 16;
/// Tokens that are read in one pass.
const PASS: usize = 512;

/// The beginnings that are held.
#[derive(Default)]
pub(super) struct Shared {
    /// Least recently used first.
    held: Vec<(Vec<u32>, Arc<Memory>)>,
    asked: VecDeque<Vec<u32>>,
}

impl Shared {
    /// What this prompt can stand on: a memory, and how many of its tokens. Reads a new beginning
    /// if enough of those who wait, or who came before, share it.
    pub fn find(
        &mut self,
        decoder: &Decoder,
        prompt: &[u32],
        waiting: &VecDeque<(usize, Request)>,
        tally: &mut Tally,
    ) -> Option<(Arc<Memory>, usize)> {
        let best = self.held.iter().enumerate().map(|(at, (tokens, _))| (common(prompt, tokens), at)).max();
        let have = best.map_or(0, |(tokens, _)| tokens);
        let others = waiting.iter().map(|(_, request)| &request.prompt).chain(&self.asked);
        let wanted = worth(others.map(|other| common(prompt, other)).collect());
        self.asked.push_back(prompt.to_vec());
        if self.asked.len() > REMEMBERED {
            self.asked.pop_front();
        }
        if wanted >= have + FEWEST && wanted <= MOST {
            let memory = read(decoder, &prompt[..wanted], tally)?;
            self.held.push((prompt[..wanted].to_vec(), memory.clone()));
            while self.held.iter().map(|(tokens, _)| tokens.len()).sum::<usize>() > MOST {
                self.held.remove(0);
            }
            return Some((memory, wanted));
        }
        let (tokens, at) = best.filter(|(tokens, _)| *tokens >= FEWEST)?;
        let used = self.held.remove(at);
        let memory = used.1.clone();
        self.held.push(used);
        Some((memory, tokens))
    }
}

/// The length that saves the most: as many tokens, times as many prompts that have them in common.
fn worth(mut lengths: Vec<usize>) -> usize {
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let saved = lengths.iter().enumerate().map(|(others, length)| ((others + 1) * length, *length));
    saved.max().map_or(0, |(_, length)| length)
}

/// Tokens that both begin with; leaves the prompt at least one of its own.
fn common(prompt: &[u32], other: &[u32]) -> usize {
    let same = prompt.iter().zip(other).take_while(|(a, b)| a == b).count();
    same.min(prompt.len().saturating_sub(1))
}

fn read(decoder: &Decoder, tokens: &[u32], tally: &mut Tally) -> Option<Arc<Memory>> {
    let mut lane = decoder.lane(None);
    for part in tokens.chunks(PASS) {
        decoder.forward(&mut [Piece { lane: &mut lane, tokens: part, scored: 0 }]);
        tally.passes += 1;
        tally.tokens += part.len();
    }
    lane.into_memory().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_beginning_is_that_which_saves_the_most() {
        assert_eq!(worth(vec![165, 164, 164, 164, 3]), 164);
        assert_eq!(worth(vec![400, 20, 20]), 400);
        assert_eq!(worth(vec![]), 0);
        assert_eq!(common(&[1, 2, 3], &[1, 2, 3]), 2, "a prompt keeps a token of its own");
        assert_eq!(common(&[1, 2, 3], &[1, 4]), 1);
        assert_eq!(common(&[], &[1]), 0);
    }
}
