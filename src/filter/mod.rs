//! 3. The filter: which facts of the team are kept. `trace ─▶ filter ─▶ template`.
//!
//! Grounding comes before confidence: an item without a place in the text never gets here. What
//! the gold says is not seen here either. Deliberately absent: the team, the test split.

mod confidence;
mod dedup;
mod leakage;
mod pii;
mod rules;
mod shingles;

pub use confidence::confidence;
pub use dedup::{Deduper, Duplicate, Likeness, Sketch};
pub use leakage::{Leak, LeakIndex, Leakage, Shared, leaks};
pub use pii::{PiiKind, masked, pii};
pub use rules::{Kept, Rules, Sieved, sieve};
