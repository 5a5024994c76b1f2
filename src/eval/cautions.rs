//! What a sample cannot decide, said before anybody believes it did.

use super::compare::Comparison;
use super::table::plain;
use super::verdict::Measure;

/// Fewer documents than this were never seen to give intervals that cover what they say.
const FEW: u64 = 20;

/// A chance to three decimals; what is smaller says so.
pub fn chance(p: f64) -> String {
    if p < 0.001 { "<0.001".to_string() } else { plain(p, 3) }
}

impl Comparison {
    /// What the sample cannot decide, a sentence for each system: about entities, or where there
    /// are none about the first measure there is.
    pub fn cautions(&self) -> Vec<String> {
        let points = |fraction: f64| plain(fraction * 100.0, 1);
        let each = self.systems.iter().filter_map(|row| {
            let test = row.test(Measure::Entities).or(row.tests.first()).filter(|test| test.cannot_decide())?;
            let reach = (test.difference.interval.high - test.difference.interval.low) / 2.0;
            let needed = test.documents_needed.map_or_else(String::new, |needed| {
                format!("; about {needed} would narrow that to {}", points(self.delta))
            });
            Some(format!(
                "{} documents are too few to say whether {} is as good as {} in {} F1: the difference is known to {} \
                 points either way{needed}.",
                self.documents,
                row.name,
                self.reference,
                test.measure.word(),
                points(reach)
            ))
        });
        let mut said: Vec<String> = each.collect();
        if self.documents < FEW && self.systems.iter().any(|row| row.entities_interval.is_some()) {
            said.push(format!(
                "No interval from {} documents can be relied on: their coverage was tried from {FEW} documents on.",
                self.documents
            ));
        }
        said
    }
}
