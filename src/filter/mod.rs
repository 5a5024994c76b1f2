//! 3. The filter: which facts of the team are kept. `trace ─▶ filter ─▶ template`.
//!
//! Grounding comes before confidence: an item without a place in the text never gets here. The gold
//! of training documents, where there is some, says what a confidence is worth and is never taught.
//! Deliberately absent: the team, the test split.
//!
//! Each document is weighed by itself ([`Heard`], [`Weighed`]), all of them are put into a [`Sift`],
//! and what it chooses is read off the documents a second time ([`Settled`]).

mod calibrate;
mod confidence;
mod dedup;
mod gauge;
mod item;
mod leakage;
mod pii;
mod reliability;
mod rules;
mod settle;
mod shingles;
mod sift;
pub mod subset;
mod tally;
#[cfg(test)]
mod tests;
mod threshold;

pub use calibrate::{Block, Curve, Judged, Method, cross_fitted};
pub use confidence::{Evidence, Score};
pub use dedup::{Deduper, Duplicate, Likeness, Sketch, Sketcher};
pub use gauge::{Calibration, Gauge, gauges};
pub use item::{Cause, Item, Kind, Reason, Weighed};
pub use leakage::{Leak, LeakIndex, Leakage, Shared, leaks};
pub use pii::{PiiKind, masked, pii};
pub use reliability::{Bin, Reliability};
pub use rules::{Contradictory, Heard, Nesting, Rules, Unsure};
pub use settle::{Fate, Settled};
pub use sift::{Chosen, Sift, SiftError};
pub use tally::{Audit, Tally};
pub use threshold::{Bound, Cut, Least, held_out, precise, surest, wilson};
