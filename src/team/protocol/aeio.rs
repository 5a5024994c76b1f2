//! `aeio`, all entities in one: the single-prompt baseline of CROSSAGENTIE (section 4.1), here
//! followed by one prompt for all relations over the entities found.

use super::{Found, entities, in_text_order, read_claims, read_links};
use crate::team::room::{Question, Room};

/// Two calls; one where no signature fits any pair of the entities.
pub(super) async fn read(room: &Room<'_>) {
    let question = Question::first("entities", "all-in-one", room.prompts().entities(room.text()));
    let heard = room.ask(vec![question], |_, answer, turn| read_claims(room, None, answer, turn)).await;
    let mut claims = heard.into_iter().flatten().flatten().collect();
    in_text_order(&mut claims);
    let candidates = entities(&claims);
    let question = room.prompts().relations(room.text(), &candidates);
    let questions = question.into_iter().map(|messages| Question::first("relations", "all-in-one", messages));
    let heard =
        room.ask(questions.collect(), |_, answer, turn| read_links(room, None, &candidates, answer, turn)).await;
    let links = heard.into_iter().flatten().flatten().collect();
    Found { claims, links, events: vec![] }.conclude(room);
}
