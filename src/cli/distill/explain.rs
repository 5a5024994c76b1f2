//! `distill --explain ID`: why each fact of one document is kept or dropped, and the document itself.

use super::hygiene;
use super::pairs::Pairs;
use crate::cli::{Common, Outcome, printed, usage};
use crate::config::Plan;
use crate::filter::{Cause, Chosen, Evidence, Fate, Heard, Item, Kind, Rules, Settled, Weighed};
use crate::ie::{Document, Extraction};
use crate::trace::{Course, Settled as Ended};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::fmt::Write;

/// Prints the decision about a document.
pub fn run(
    plan: &Plan,
    rules: &Rules,
    pairs: &mut Pairs,
    chosen: &Chosen,
    id: &str,
    common: &Common,
) -> Result<Outcome> {
    let (ordinal, mut document, mut trace) = pairs.find(id)?.map_err(|near| {
        let near: Vec<String> = near.iter().map(|id| format!("\"{id}\"")).collect();
        usage(format!("--explain {id}: no document has this id; the nearest are {}", near.join(", ")))
    })?;
    if hygiene::masks(plan) {
        hygiene::mask(&mut document, &mut trace);
    }
    let heard = Heard::of(&document, &trace, rules).map_err(|error| anyhow!(error))?;
    let weighed = heard.weighed(&document, &trace, plan.schema(), rules);
    let settled = Settled::of(&weighed, &chosen.gauges, rules);
    let said =
        Explained { document: &document, heard: &heard, weighed: &weighed, settled: &settled, chosen, ordinal, rules };
    printed(&if common.json { format!("{}\n", said.json()) } else { said.told() })?;
    Ok(Outcome::Done)
}

/// A document with everything that was decided about it.
struct Explained<'a> {
    document: &'a Document,
    heard: &'a Heard,
    weighed: &'a Weighed,
    settled: &'a Settled,
    chosen: &'a Chosen,
    ordinal: usize,
    rules: &'a Rules,
}

impl Explained<'_> {
    fn told(&self) -> String {
        let mut text = format!("{}: {}\n", self.document.id, self.verdict());
        for (at, item) in self.weighed.items.iter().enumerate() {
            let gauge = &self.chosen.gauges[item.kind as usize];
            let fate = match self.settled.fates[at] {
                Fate::Kept => "kept".to_string(),
                Fate::Masked => "written and not learned: below the threshold".to_string(),
                Fate::Dropped(reason) => format!("dropped: {reason}"),
            };
            let _ = writeln!(
                text,
                "  {}\n    {fate}\n    {}",
                shown(&self.heard.extraction, at),
                behind(&self.heard.evidence[at])
            );
            let number = |value: Option<f64>| value.map_or_else(|| "unknown".into(), |value| format!("{value:.3}"));
            let _ = write!(text, "    confidence {}", number(item.score));
            if gauge.curve.is_some() {
                let _ = write!(text, ", calibrated {}", number(self.settled.values[at]));
            }
            let _ = writeln!(text, ", threshold {:.3}", gauge.threshold());
            if let Some(right) = item.right {
                let _ = writeln!(text, "    {}", if right { "the gold has it" } else { "the gold does not have it" });
            }
        }
        let entities = self.weighed.of(Kind::Entity).count();
        if entities > 0 {
            let unsure = |(at, _): &(usize, &Item)| {
                !matches!(self.settled.fates[*at], Fate::Kept) && self.weighed.items[*at].ruled_out.is_none()
            };
            let count = self.weighed.of(Kind::Entity).filter(unsure).count();
            let most = 100.0 * self.rules.max_dropped_share;
            let _ = writeln!(text, "  {count} of {entities} entities are below the threshold; {most:.0} % may be");
        }
        if self.chosen.unasked.contains(&self.ordinal) {
            text.push_str(
                "  its question about relations is left out: more of them have an empty answer than the share allows\n",
            );
        }
        text
    }

    fn verdict(&self) -> String {
        match (self.chosen.causes[self.ordinal], self.settled.document) {
            (Some(cause), _) => format!("left out: {cause}"),
            (None, Ok(confidence)) => format!("kept, confidence {confidence:.3}"),
            (None, Err(cause)) => format!("left out: {cause}"),
        }
    }

    fn json(&self) -> Value {
        let items = self.weighed.items.iter().enumerate().map(|(at, item)| {
            let (fate, reason) = match self.settled.fates[at] {
                Fate::Kept => ("kept", None),
                Fate::Masked => ("masked", None),
                Fate::Dropped(reason) => ("dropped", Some(reason.text())),
            };
            let evidence = &self.heard.evidence[at];
            let source = confidence_source(&self.heard.extraction, at);
            json!({
                "kind": item.kind.plural(), "item": shown(&self.heard.extraction, at), "fate": fate, "reason": reason,
                "votes": evidence.votes, "voters": evidence.voters, "logprob": evidence.logprob, "least": evidence.least,
                "margin": evidence.margin(), "judged": evidence.judged, "debate": evidence.debate, "needed": evidence.needed,
                "confidence": item.score, "source": source, "probability": self.settled.values[at],
                "threshold": self.chosen.gauges[item.kind as usize].threshold(), "right": item.right,
            })
        });
        let cause = self.chosen.causes[self.ordinal].map(Cause::text);
        json!({
            "id": self.document.id, "kept": cause.is_none(), "reason": cause, "confidence": self.settled.document.ok(),
            "relations_asked": cause.is_none() && !self.chosen.unasked.contains(&self.ordinal),
            "items": items.collect::<Vec<_>>(),
        })
    }
}

/// `person "Ann"`, `works_for "Ann" → "Acme"`, `Attack "fired"`.
fn shown(found: &Extraction, at: usize) -> String {
    let (entities, relations) = (found.entities.len(), found.relations.len());
    if let Some(entity) = found.entities.get(at) {
        return format!("{} \"{}\"", entity.label, entity.text);
    }
    if let Some(relation) = found.relations.get(at - entities) {
        let name = |end: usize| found.entities.get(end).map_or("", |entity| entity.text.as_str());
        return format!("{} \"{}\" → \"{}\"", relation.label, name(relation.head), name(relation.tail));
    }
    found
        .events
        .get(at - entities - relations)
        .map_or_else(String::new, |event| format!("{} \"{}\"", event.label, event.trigger.text))
}

fn confidence_source(found: &Extraction, at: usize) -> Value {
    let (entities, relations) = (found.entities.len(), found.relations.len());
    let confidence = match at {
        at if at < entities => found.entities[at].confidence,
        at if at < entities + relations => found.relations[at - entities].confidence,
        at => found.events.get(at - entities - relations).and_then(|event| event.confidence),
    };
    confidence.map_or(Value::Null, |confidence| json!(confidence.source()))
}

/// `2 of 3 votes, p 0.93 (least 0.88, first token ahead by 0.81), disputed for 2 rounds, the summarizer decided`.
fn behind(evidence: &Evidence) -> String {
    let mut text = format!("{} of {} votes", evidence.votes, evidence.voters);
    match evidence.logprob {
        Some(logprob) => {
            let _ = write!(text, ", p {:.3}", logprob.exp());
            let least = evidence.least.map(|least| format!("least {:.3}", least.exp()));
            let margin = evidence.margin().map(|margin| format!("first token ahead by {margin:.3}"));
            let more: Vec<String> = least.into_iter().chain(margin).collect();
            if !more.is_empty() {
                let _ = write!(text, " ({})", more.join(", "));
            }
        }
        None => text.push_str(", no token probabilities"),
    }
    match evidence.debate {
        Some(Course { rounds, settled }) => {
            let how = match settled {
                Ended::Consensus => "consensus",
                Ended::Summarizer => "the summarizer decided",
                Ended::Majority => "a majority decided",
                Ended::Failed => "nobody decided",
            };
            let _ = write!(text, ", disputed for {rounds} {}: {how}", if rounds == 1 { "round" } else { "rounds" });
        }
        None if evidence.judged => text.push_str(", the summarizer decided"),
        None => {}
    }
    if evidence.needed > 0 {
        let _ = write!(
            text,
            ", needed by {} {}",
            evidence.needed,
            if evidence.needed == 1 { "relation" } else { "relations" }
        );
    }
    text
}
