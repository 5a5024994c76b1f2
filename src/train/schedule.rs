//! The learning rate of each step, with the names and the values of `transformers`' `get_scheduler`.

use serde::{Deserialize, Serialize};

/// How the learning rate moves after warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Always at its peak, without warm-up.
    Constant,
    /// Stays at its peak.
    ConstantWithWarmup,
    /// Falls evenly; the step behind the last would have 0.
    #[default]
    Linear,
    /// Falls along half a cosine; the step behind the last would have 0.
    Cosine,
}

impl Schedule {
    /// Every one of them.
    pub const ALL: [Schedule; 4] =
        [Schedule::Constant, Schedule::ConstantWithWarmup, Schedule::Linear, Schedule::Cosine];

    /// As `transformers` and the config call it.
    pub fn name(self) -> &'static str {
        match self {
            Schedule::Constant => "constant",
            Schedule::ConstantWithWarmup => "constant_with_warmup",
            Schedule::Linear => "linear",
            Schedule::Cosine => "cosine",
        }
    }

    /// The schedule of this name.
    pub fn named(name: &str) -> Option<Schedule> {
        Schedule::ALL.into_iter().find(|schedule| schedule.name() == name)
    }

    /// The rate of step `step` (from 0) of `total`, of which the first `warmup` rise evenly from 0.
    /// Within 0 and `peak` for every combination.
    pub fn rate(self, peak: f64, step: usize, total: usize, warmup: usize) -> f64 {
        if self == Schedule::Constant {
            return peak;
        }
        if step < warmup {
            return peak * (step as f64 / warmup as f64);
        }
        let falling = total.saturating_sub(warmup).max(1) as f64;
        match self {
            Schedule::Constant | Schedule::ConstantWithWarmup => peak,
            Schedule::Linear => peak * (total.saturating_sub(step) as f64 / falling),
            Schedule::Cosine => {
                let done = ((step - warmup) as f64 / falling).min(1.0);
                peak * (0.5 * (1.0 + (std::f64::consts::PI * done).cos())).max(0.0)
            }
        }
    }
}

/// Steps of warm-up.
pub(super) fn warmup(ratio: f64, total: usize) -> usize {
    (ratio * total as f64).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_rate_is_finite_and_within_zero_and_the_peak() {
        for schedule in Schedule::ALL {
            for total in [0, 1, 2, 3, 10, 1000] {
                for warmup in [0, 1, 2, 9, 10, 11, 20, 1500] {
                    // Two steps beyond the last are asked for as well.
                    let rates: Vec<f64> = (0..total + 2).map(|step| schedule.rate(1e-4, step, total, warmup)).collect();
                    assert!(rates.iter().all(|rate| (0.0..=1e-4).contains(rate)), "{schedule:?} {total} {warmup}");
                    let peak = warmup.min(total);
                    if schedule != Schedule::Constant {
                        assert!(rates[..peak].is_sorted(), "{schedule:?} {total} {warmup} does not rise");
                    }
                    assert!(rates[peak..total].iter().rev().is_sorted(), "{schedule:?} {total} {warmup} does not fall");
                }
            }
        }
    }

    #[test]
    fn the_rates_are_those_of_transformers() {
        // scripts/golden/schedules.py
        let golden = include_str!("../../tests/golden/schedules.json");
        let golden: Value = serde_json::from_str(golden).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(cases.len() >= 100, "{}", cases.len());
        for case in cases {
            let schedule = Schedule::named(case["name"].as_str().unwrap()).unwrap();
            let count = |key: &str| case[key].as_u64().unwrap() as usize;
            let (total, steps) = (count("total"), count("warmup"));
            assert_eq!(warmup(case["ratio"].as_f64().unwrap(), total), steps, "{case}");
            for (step, expected) in case["rates"].as_array().unwrap().iter().enumerate() {
                let (found, expected) = (schedule.rate(2e-4, step, total, steps), expected.as_f64().unwrap());
                // The cosines of two libraries may differ in their last bit, and 1 + cos cancels near the end.
                assert!((found - expected).abs() <= 2e-4 * 1e-15, "{case} step {step}: {found}");
            }
        }
        for schedule in Schedule::ALL {
            assert!(cases.iter().any(|case| case["name"] == schedule.name()));
        }
        assert_eq!(Schedule::named("polynomial"), None);
    }
}
