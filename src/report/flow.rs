//! What became of the conflicts of a debate: settled by consensus in some round, or left to the
//! summarizer, to a majority, to nobody.

use crate::trace::{Settled, Trace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The conflicts of one team on one set of documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Whose, and where: `crossagentie on train`.
    pub name: String,
    /// Documents that were debated.
    pub documents: u64,
    /// Conflicts settled by consensus, by the round of debate that settled them.
    pub consensus: BTreeMap<u32, u64>,
    /// Conflicts that the summarizer decided.
    pub summarizer: u64,
    /// Conflicts in which the last round's majority stands.
    pub majority: u64,
    /// Conflicts without any outcome.
    pub failed: u64,
}

impl Flow {
    /// `None` where nobody disagreed.
    pub fn of(name: &str, traces: &[Trace]) -> Option<Flow> {
        let mut flow = Flow { name: name.into(), documents: traces.len() as u64, ..Flow::default() };
        for conflict in traces.iter().flat_map(|trace| &trace.conflicts) {
            match conflict.settled {
                Settled::Consensus => *flow.consensus.entry(conflict.rounds).or_default() += 1,
                Settled::Summarizer => flow.summarizer += 1,
                Settled::Majority => flow.majority += 1,
                Settled::Failed => flow.failed += 1,
            }
        }
        (flow.conflicts() > 0).then_some(flow)
    }

    /// All conflicts.
    pub fn conflicts(&self) -> u64 {
        self.consensus.values().sum::<u64>() + self.left()
    }

    /// Conflicts that no round settled.
    pub fn left(&self) -> u64 {
        self.summarizer + self.majority + self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Conflict;

    #[test]
    fn every_conflict_ends_in_one_place() {
        let conflict = |settled: Settled, rounds: u32| Conflict {
            stage: "entities".into(),
            options: vec![],
            claimants: vec![],
            outcome: None,
            settled,
            rounds,
        };
        let ends =
            [(Settled::Consensus, 1), (Settled::Consensus, 1), (Settled::Consensus, 2), (Settled::Summarizer, 2)];
        let conflicts = ends.map(|(settled, rounds)| conflict(settled, rounds)).to_vec();
        let trace = Trace { conflicts, ..Trace::opened("a", "crossagentie") };
        let flow = Flow::of("team", &[trace, Trace::opened("b", "crossagentie")]).unwrap();
        assert_eq!((flow.documents, flow.conflicts(), flow.left()), (2, 4, 1));
        assert_eq!(flow.consensus, BTreeMap::from([(1, 2), (2, 1)]));
        assert_eq!(Flow::of("team", &[Trace::opened("b", "crossagentie")]), None);
    }
}
