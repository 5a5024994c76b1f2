//! What the machine of an experiment costs; what the team's tokens cost stands in `[team.price]`.

use super::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prices beside those of the team's tokens. They decide no stage: a run is priced anew without
/// being done again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PricesSection {
    /// What an hour of this machine costs, for training, for reading with the student, and for a
    /// team in this process. Default: unknown, and no hour is priced.
    pub machine_hour: Option<f64>,
    /// What stands before an amount, such as `$`. Default: nothing.
    pub currency: String,
}

impl PricesSection {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        match self.machine_hour {
            Some(hour) if !(hour.is_finite() && hour >= 0.0) => {
                Err(ConfigError(format!("prices.machine_hour is {hour}; expected 0 or more")))
            }
            _ => Ok(()),
        }
    }
}
