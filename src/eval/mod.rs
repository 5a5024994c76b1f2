//! 6. One scorer for team and student.
//!
//! Strict micro precision, recall and F1 over typed records, intervals by resampling documents,
//! and the paired comparison of systems:
//!
//! [`score()`] counts, [`bootstrap`] says how far the sample can be trusted, [`compare()`] puts
//! systems side by side. Deliberately absent: files, clocks, any system by name.

mod align;
pub mod bootstrap;
pub mod compare;
pub mod compat;
mod counts;
mod score;
pub mod table;

pub use align::{Mode, Rules, UnknownMode};
pub use bootstrap::Interval;
pub use compare::{Comparison, System, compare};
pub use compat::Convention;
pub use counts::{Counts, Duplicates, EventCounts, PerType, Scores};
pub use score::{ScoreError, Scored, score};
