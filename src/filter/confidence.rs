//! How sure the team is of an item: vote share × probability of the tokens of its span.

use crate::ie::{Confidence, ConfidenceSource};
use crate::trace::Support;

/// One vote per agent; where the summarizer decided, it is one voter more. The probability is the
/// geometric mean over the span's tokens, `exp(mean log-probability)`; where the server gave none,
/// the vote share stands alone and the source says so. `None` if nobody was asked.
pub fn confidence(support: &Support) -> Option<Confidence> {
    let judge = u32::from(support.judged);
    let voters = support.voters + judge;
    if voters == 0 {
        return None;
    }
    let share = f64::from((support.votes + judge).min(voters)) / f64::from(voters);
    match support.logprob {
        Some(logprob) => Confidence::new(share * logprob.exp().min(1.0), ConfidenceSource::Logprob),
        None => Confidence::new(share, ConfidenceSource::Vote),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn support(votes: u32, voters: u32, logprob: Option<f64>, judged: bool) -> Support {
        Support { votes, voters, logprob, judged }
    }

    #[test]
    fn an_agent_that_failed_stays_in_the_denominator() {
        // case C18: one of three, not one of one.
        let value = confidence(&support(1, 3, None, false)).unwrap();
        assert!((value.value() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(value.source(), ConfidenceSource::Vote);
    }

    #[test]
    fn the_span_s_probability_is_a_factor() {
        let value = confidence(&support(1, 2, Some(-0.2), true)).unwrap().value();
        assert!((value - 2.0 / 3.0 * (-0.2f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn nobody_asked_is_unknown() {
        assert_eq!(confidence(&support(0, 0, Some(-0.1), false)), None);
    }
}
