//! `aeio`, all entities in one: the single-prompt baseline of CROSSAGENTIE (section 4.1), here
//! followed by one prompt for all relations over the entities found.

use super::{conclude, entities, in_text_order, read_claims, read_links, readable};
use crate::ie::Document;
use crate::team::floor::{Floor, Question, Team};
use crate::trace::Trace;

/// Two calls a document; one where no signature fits any pair of its entities.
pub(in crate::team) fn run(team: &Team, documents: &[Document], traces: &mut [Trace]) {
    let mut claims = vec![Vec::new(); documents.len()];
    let questions = readable(documents).map(|(at, document)| Question {
        document: at,
        conflict: None,
        messages: team.prompts.entities(&document.text),
    });
    let floor = Floor { stage: "entities", agent: "all-in-one", round: 0 };
    let heard = team.ask(floor, questions.collect(), traces, |question, answer, turn| {
        read_claims(team, None, &documents[question.document].text, answer, turn)
    });
    for (at, found) in heard {
        claims[at] = found.unwrap_or_default();
        in_text_order(&mut claims[at]);
    }
    let candidates: Vec<_> = claims.iter().map(|claims| entities(claims)).collect();
    let questions = readable(documents).filter_map(|(at, document)| {
        Some(Question {
            document: at,
            conflict: None,
            messages: team.prompts.relations(&document.text, &candidates[at])?,
        })
    });
    let floor = Floor { stage: "relations", agent: "all-in-one", round: 0 };
    let heard = team.ask(floor, questions.collect(), traces, |question, answer, turn| {
        read_links(team, None, &candidates[question.document], answer, turn)
    });
    let mut links = vec![Vec::new(); documents.len()];
    for (at, found) in heard {
        links[at] = found.unwrap_or_default();
    }
    for (at, links) in links.into_iter().enumerate() {
        conclude(&mut traces[at], &documents[at], &claims[at], links);
    }
}
