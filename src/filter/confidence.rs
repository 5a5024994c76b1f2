//! How sure the team is of an item: the evidence, one number for each thing that speaks for or
//! against it, and the score that it comes to. What nobody knows stays unknown.

use crate::ie::{Confidence, ConfidenceSource};
use crate::trace::{Course, Support};

/// What speaks for an item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Agents that stand behind it: one vote per agent and item.
    pub votes: u32,
    /// Agents that were asked about it; one that failed stays in.
    pub voters: u32,
    /// Mean log-probability of the tokens of its surface.
    pub logprob: Option<f64>,
    /// Lowest log-probability among them.
    pub least: Option<f64>,
    /// Log-probability of the first of them.
    pub first: Option<f64>,
    /// Whether the summarizer had to decide.
    pub judged: bool,
    /// The debate that decided it, where it was disputed.
    pub debate: Option<Course>,
    /// Relations of the outcome that need it: of an entity.
    pub needed: u32,
}

/// How evidence becomes a score. All are in `0..=1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Vote share × geometric mean of the tokens' probabilities; the share alone where there are none.
    Product,
    /// Vote share.
    Votes,
    /// Vote share × probability of the least probable token.
    Least,
    /// Vote share × margin of the first token.
    Margin,
}

impl Evidence {
    /// The evidence of a trace; `needed` is how many relations need the item.
    pub fn of(support: &Support, needed: u32) -> Evidence {
        let Support { votes, voters, logprob, judged, least, first, debate } = *support;
        Evidence { votes, voters, logprob, least, first, judged, debate, needed }
    }

    /// Share of votes; where the summarizer decided, it is one voter more. `None` if nobody was asked.
    pub fn share(&self) -> Option<f64> {
        let judge = u32::from(self.judged);
        let voters = self.voters + judge;
        (voters > 0).then(|| f64::from((self.votes + judge).min(voters)) / f64::from(voters))
    }

    /// The least by which the first token was more probable than any other: servers send the chosen
    /// token's probability p alone, and no other has more than 1 − p. 0 where p is below a half.
    pub fn margin(&self) -> Option<f64> {
        self.first.map(|first| (2.0 * first.exp() - 1.0).clamp(0.0, 1.0))
    }

    /// How sure the team is. The probability is a factor where the server gave one; where it gave
    /// none, the vote share stands alone and the source says so. `None` if nobody was asked.
    pub fn confidence(&self, score: Score) -> Option<Confidence> {
        let share = self.share()?;
        let factor = match score {
            Score::Product => self.logprob.map(|logprob| logprob.exp().min(1.0)),
            Score::Votes => None,
            Score::Least => self.least.map(|least| least.exp().min(1.0)),
            Score::Margin => self.margin(),
        };
        match factor {
            Some(factor) => Confidence::new(share * factor, ConfidenceSource::Logprob),
            None if self.judged => Confidence::new(share, ConfidenceSource::Judge),
            None => Confidence::new(share, ConfidenceSource::Vote),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn support(votes: u32, voters: u32, logprob: Option<f64>, judged: bool) -> Evidence {
        Evidence::of(&Support { votes, voters, logprob, judged, ..Support::default() }, 0)
    }

    #[test]
    fn an_agent_that_failed_stays_in_the_denominator() {
        // case C18: one of three, not one of one.
        let value = support(1, 3, None, false).confidence(Score::Product).unwrap();
        assert!((value.value() - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(value.source(), ConfidenceSource::Vote);
    }

    #[test]
    fn the_span_s_probability_is_a_factor() {
        let value = support(1, 2, Some(-0.2), true).confidence(Score::Product).unwrap();
        assert!((value.value() - 2.0 / 3.0 * (-0.2f64).exp()).abs() < 1e-12);
        assert_eq!(value.source(), ConfidenceSource::Logprob);
        let alone = support(1, 2, None, true).confidence(Score::Product).unwrap();
        assert_eq!(alone.source(), ConfidenceSource::Judge);
    }

    #[test]
    fn log_probabilities_without_alternatives_are_usable_and_the_margin_says_the_least_it_can_be() {
        // case C15: mean -0.2, exp 0.819; of "Bern", -0.1, no other token can have more than 1 - 0.905.
        let evidence =
            Evidence { logprob: Some(-0.2), least: Some(-0.3), first: Some(-0.1), ..support(1, 1, None, false) };
        let of = |score| evidence.confidence(score).unwrap().value();
        assert!((of(Score::Product) - 0.8187).abs() < 1e-4);
        assert!((of(Score::Least) - 0.7408).abs() < 1e-4);
        assert!((of(Score::Margin) - 0.8097).abs() < 1e-4);
        assert_eq!(of(Score::Votes), 1.0);
        let unknown = support(1, 1, None, false);
        assert_eq!(
            (unknown.margin(), unknown.confidence(Score::Least).map(|c| c.source())),
            (None, Some(ConfidenceSource::Vote))
        );
    }

    #[test]
    fn nobody_asked_is_unknown() {
        assert_eq!(support(0, 0, Some(-0.1), false).confidence(Score::Product), None);
    }
}
