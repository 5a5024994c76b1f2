//! 5. Training: the pre-flight check, the order of the items, the loop, checkpoints.
//!
//! LoRA fine-tuning (Hu et al. 2021, arXiv:2106.09685) with AdamW (Loshchilov and Hutter 2019,
//! arXiv:1711.05101). A run killed at any moment and started again ends in the same bytes.

mod batches;
mod checkpoint;
mod config;
mod error;
mod fit;
mod log;
mod optimizer;
mod preflight;
mod schedule;
mod tensorboard;
mod tests;

pub use config::{ExcessLength, InitAdapter, OnDivergence, TrainConfig};
pub use error::{Refusal, TrainError};
pub use fit::{Fitted, Foreseen, Hooks, Resume, best_model, fit, foresee};
pub use log::LogLine;
pub use preflight::{Inspection, Item, Part, SeenToken, Tokenized, TokenizedItem, check_targets, inspect, preflight};
pub use schedule::Schedule;

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

/// What random numbers are drawn for; each purpose has its own stream.
#[derive(Clone, Copy)]
enum Purpose {
    Order = 1,
    Dropout = 2,
}

/// A stream of random numbers that depends on nothing but its arguments.
fn stream(seed: u64, purpose: Purpose, first: u64, second: u64) -> ChaCha12Rng {
    let mut bytes = [0; 32];
    for (place, number) in bytes.chunks_exact_mut(8).zip([seed, purpose as u64, first, second]) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    ChaCha12Rng::from_seed(bytes)
}
