//! The learning rate of each step.

use serde::{Deserialize, Serialize};

/// How the learning rate moves after warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// Stays at its peak.
    Constant,
    /// Falls evenly; the step behind the last would have 0.
    #[default]
    Linear,
    /// Falls along half a cosine; the step behind the last would have 0.
    Cosine,
}

impl Schedule {
    /// The rate of step `step` (from 0) of `total`, of which the first `warmup` rise evenly to
    /// `peak`. Within 0 and `peak` for every combination, and above 0 on the first step.
    pub fn rate(self, peak: f64, step: usize, total: usize, warmup: usize) -> f64 {
        if step < warmup {
            // From 1, not 0: a step at rate 0 is wasted.
            return peak * (step + 1) as f64 / warmup as f64;
        }
        let falling = total.saturating_sub(warmup).max(1) as f64;
        let done = ((step - warmup) as f64 / falling).min(1.0);
        match self {
            Schedule::Constant => peak,
            Schedule::Linear => peak * (1.0 - done),
            Schedule::Cosine => peak * 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Schedule; 3] = [Schedule::Constant, Schedule::Linear, Schedule::Cosine];

    #[test]
    fn every_rate_is_finite_and_within_zero_and_the_peak() {
        for schedule in ALL {
            for total in [1, 2, 3, 10, 1000] {
                for warmup in [0, 1, 2, 9, 10, 11, 20, 1500] {
                    let rates: Vec<f64> = (0..total).map(|step| schedule.rate(1e-4, step, total, warmup)).collect();
                    assert!(rates.iter().all(|rate| (0.0..=1e-4).contains(rate)), "{schedule:?} {total} {warmup}");
                    assert!(rates[0] > 0.0, "{schedule:?} {total} {warmup} wastes its first step");
                    let peak = warmup.saturating_sub(1).min(total - 1);
                    assert!(rates[..peak].is_sorted(), "{schedule:?} {total} {warmup} does not rise");
                    assert!(rates[peak..].iter().rev().is_sorted(), "{schedule:?} {total} {warmup} does not fall");
                }
            }
        }
    }

    #[test]
    fn the_curves_have_the_values_of_their_formulas() {
        // Ten steps, two of warm-up: the middle of the fall is step 6.
        let at = |schedule: Schedule, step| schedule.rate(2.0, step, 10, 2);
        for schedule in ALL {
            assert_eq!((at(schedule, 0), at(schedule, 1), at(schedule, 2)), (1.0, 2.0, 2.0));
        }
        assert_eq!((at(Schedule::Linear, 6), at(Schedule::Linear, 9)), (1.0, 0.25));
        assert!((at(Schedule::Cosine, 6) - 1.0).abs() < 1e-12);
        assert_eq!(at(Schedule::Constant, 9), 2.0);
    }
}
