//! What the user wrote ([`Config`]) and what the program will do ([`Plan`]): after the check
//! nothing can be misconfigured. Unknown keys are refused with the nearest known one.

mod cooperkgc;
mod demonstrations;
mod file;
mod filter;
mod json_schema;
mod lora;
mod plan;
mod prices;
pub mod schema_file;
mod servers;
mod training;

pub use cooperkgc::{Cooperation, CooperkgcSection, Expert, ExpertSection, ExpertTask};
pub use demonstrations::{DemonstrationsSection, ENCODER_IN_A_PACKAGE, ENCODER_OF_A_SERVER};
pub use file::{Config, DataSection, EvalSection, PriceSection, TeamSection};
pub use filter::FilterSection;
pub use json_schema::{json_schema, keys};
pub use lora::{LoraSection, TARGETS, TargetModules};
pub use plan::{ConfigError, Mode, Plan};
pub use prices::PricesSection;
pub use training::TrainSection;
