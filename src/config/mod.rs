//! What the user wrote ([`Config`]) and what the program will do ([`Plan`]): after the check
//! nothing can be misconfigured. Unknown keys are refused with the nearest known one.

mod file;
mod plan;
pub mod schema_file;
mod training;

pub use file::{Config, DataSection, EvalSection, FilterSection, LoraSection, TeamSection};
pub use plan::{ConfigError, Mode, Plan};
pub use training::TrainSection;
