//! 6. One scorer for team and student.
//!
//! Strict micro precision, recall and F1 over typed records, intervals by resampling documents,
//! and the paired comparison of systems:
//!
//! [`score()`] counts, [`bootstrap`] says how far the sample can be trusted, [`compare()`] puts
//! systems side by side with what [`verdict`] can say of each, [`mod@errors`] and [`analysis`] show what
//! they get wrong, [`reliability`] whether their confidences hold, [`economics`] what they take, [`seeds`]
//! what is left over several trainings. Deliberately absent: files, clocks, any system by name.

mod align;
pub mod analysis;
pub mod bootstrap;
pub mod cautions;
pub mod compare;
pub mod compat;
mod counts;
mod distribution;
pub mod economics;
pub mod errors;
pub mod randomisation;
pub mod reliability;
mod score;
pub mod seeds;
pub mod table;

pub mod verdict;

pub use align::{Mode, Rules, UnknownMode};
pub use bootstrap::Interval;
pub use compare::{Comparison, System, compare};
pub use compat::Convention;
pub use counts::{Counts, Duplicates, EventCounts, PerType, Scores};
pub use score::{ScoreError, Scored, score};
