//! Conversations that ask for some of the labels only: a student that has seen them keeps to what is
//! asked, where others stand in the text as well.
//!
//! There are 16 subsets a task, not one for every document: conversations with the same instruction
//! share its computation when they are trained on.

use super::rules::Rules;
use crate::ie::Schema;

/// Subsets of one task.
const SUBSETS: u64 = 16;

/// Which entity labels a document's conversation asks for; `None` for all.
pub fn entities(lot: u64, schema: &Schema, rules: &Rules) -> Option<Vec<bool>> {
    drawn(lot, rules, schema.entities.len(), 1)
}

/// Which relation labels a document's conversation asks for; `None` for all.
pub fn relations(lot: u64, schema: &Schema, rules: &Rules) -> Option<Vec<bool>> {
    drawn(lot, rules, schema.relations.len(), 2)
}

/// Whether the label is among those asked.
pub(super) fn is_asked(asked: Option<&[bool]>, label: u16) -> bool {
    asked.is_none_or(|asked| asked.get(usize::from(label)).copied().unwrap_or(false))
}

fn drawn(lot: u64, rules: &Rules, labels: usize, task: u64) -> Option<Vec<bool>> {
    let draw = mixed(lot ^ mixed(rules.seed ^ task));
    // 53 bits are what an f64 holds.
    if labels < 2 || (draw >> 11) as f64 / (1u64 << 53) as f64 >= rules.subset_share {
        return None;
    }
    let which = mixed(draw) % SUBSETS;
    let mut asked: Vec<bool> =
        (0..labels as u64).map(|label| mixed(rules.seed ^ mixed(task << 32 | which << 16 | label)) & 1 == 1).collect();
    let one = which as usize % labels;
    if asked.iter().all(|asked| !asked) || asked.iter().all(|asked| *asked) {
        asked[one] = !asked[one];
    }
    Some(asked)
}

/// The finalizer of SplitMix64 (Steele, Lea & Flood 2014).
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
