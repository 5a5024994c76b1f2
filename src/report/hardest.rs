//! The hardest documents, as they were read: the text once for the annotators and once for every
//! system, mentions marked in it.

use super::number::count;
use super::svg::escape;
use crate::eval::analysis::{Analysis, Hard, Link};
use crate::ie::record::EntityRecord;
use std::collections::BTreeSet;

/// Every hard document, folded up but for the first.
pub fn hardest(analysis: &Analysis) -> String {
    analysis.hardest.iter().enumerate().map(|(at, hard)| document(hard, at == 0)).collect()
}

fn document(hard: &Hard, open: bool) -> String {
    let by = hard.answers.iter().map(|one| format!("{}: {}", one.system, count(one.mistakes())));
    let gold = keys(&hard.gold);
    let mut columns =
        column(reading("Gold", "", &hard.text, &hard.gold, |_| "gold", &[]), &hard.gold_relations, "gold");
    for answer in &hard.answers {
        let given = keys(&answer.entities);
        // A wrong type is marked where it stands; missed is what has no answer on its span.
        let placed = |gold: &EntityRecord| given.iter().any(|one| (one.0, one.1) == (gold.start, gold.end));
        let missed: Vec<&EntityRecord> = hard.gold.iter().filter(|one| !placed(one)).collect();
        let right = |one: &EntityRecord| if gold.contains(&key(one)) { "right" } else { "wrong" };
        let marked = reading(&answer.system, &told(answer), &hard.text, &answer.entities, right, &missed);
        columns += &column(marked, &answer.relations, "right");
    }
    let cut = match hard.cut {
        0 => String::new(),
        cut => format!("<p class=\"quiet\">{} more characters are not shown.</p>", count(cut)),
    };
    format!(
        "<details class=\"hard\"{}><summary>{} <span class=\"quiet\">mistakes: {}</span></summary>\n<div class=\"readings\">{columns}</div>{cut}</details>\n",
        if open { " open=\"\"" } else { "" },
        escape(&hard.id),
        escape(&by.collect::<Vec<_>>().join(", "))
    )
}

/// The marked text with the relations beneath it; `class` is that of a right one.
fn column(marked: String, relations: &[Link], class: &str) -> String {
    let line = |one: &Link| {
        let class = if one.right { class } else { "wrong" };
        let (label, head, tail) = (escape(&one.label), escape(&one.head), escape(&one.tail));
        format!("<li><mark class=\"{class}\">{head} → {tail}<small>{label}</small></mark></li>")
    };
    let lines = relations.iter().map(line).collect::<String>();
    let lines = if lines.is_empty() { lines } else { format!("<ul>{lines}</ul>") };
    format!("<div>{marked}{lines}</div>")
}

/// `2 right, 1 boundary, 1 missing`.
fn told(answer: &crate::eval::analysis::Answer) -> String {
    let errors = &answer.errors;
    let kinds = [
        (errors.right, "right"),
        (errors.wrong_type, "wrong type"),
        (errors.boundary, "boundary"),
        (errors.missing, "missing"),
        (errors.spurious, "spurious"),
        (answer.wrong_relations, "wrong or missed relations"),
    ];
    let some = kinds.into_iter().filter(|(number, _)| *number > 0);
    some.map(|(number, what)| format!("{} {what}", count(number))).collect::<Vec<_>>().join(", ")
}

type Key<'a> = (Option<usize>, Option<usize>, &'a str);

fn key(one: &EntityRecord) -> Key<'_> {
    (one.start, one.end, &one.label)
}

fn keys(of: &[EntityRecord]) -> BTreeSet<Key<'_>> {
    of.iter().map(key).collect()
}

/// One column: the text with its mentions, and beneath it what cannot be marked in it.
fn reading(
    name: &str,
    told: &str,
    text: &str,
    entities: &[EntityRecord],
    class: impl Fn(&EntityRecord) -> &'static str,
    missed: &[&EntityRecord],
) -> String {
    let letters: Vec<char> = text.chars().collect();
    let slice = |from: usize, to: usize| escape(&letters[from..to].iter().collect::<String>());
    let mut marked = String::new();
    let mut beside = String::new();
    let mut done = 0;
    let mut order: Vec<&EntityRecord> = entities.iter().collect();
    order.sort_by_key(|one| (one.start, one.end, one.label.clone()));
    for one in order {
        let label = format!("<small>{}</small>", escape(&one.label));
        let class = class(one);
        match (one.start, one.end) {
            // A mention inside one that is marked already stands beneath the text.
            (Some(start), Some(end)) if start >= done && start < end && end <= letters.len() => {
                marked += &slice(done, start);
                marked += &format!("<mark class=\"{class}\">{}{label}</mark>", slice(start, end));
                done = end;
            }
            _ => beside += &format!("<li><mark class=\"{class}\">{}{label}</mark></li>", escape(&one.text)),
        }
    }
    marked += &slice(done, letters.len());
    for one in missed {
        beside += &format!("<li>missed: {}<small>{}</small></li>", escape(&one.text), escape(&one.label));
    }
    let beside = if beside.is_empty() { beside } else { format!("<ul>{beside}</ul>") };
    let told = if told.is_empty() { String::new() } else { format!(" <span class=\"quiet\">{}</span>", escape(told)) };
    format!("<h3>{}{told}</h3><p>{marked}</p>{beside}", escape(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(label: &str, text: &str, at: Option<(usize, usize)>) -> EntityRecord {
        EntityRecord {
            label: label.into(),
            text: text.into(),
            start: at.map(|at| at.0),
            end: at.map(|at| at.1),
            confidence: None,
            confidence_source: None,
        }
    }

    #[test]
    fn mentions_are_marked_by_code_points_and_nested_ones_stand_beneath() {
        let text = "Zoé <b> Bank of Bern";
        let entities = [
            entity("ORG", "Bank of Bern", Some((8, 20))),
            entity("PER", "Zoé", Some((0, 3))),
            entity("LOC", "Bern", Some((16, 20))),
        ];
        let shown = reading("team", "", text, &entities, |_| "right", &[]);
        assert!(shown.contains("<p><mark class=\"right\">Zoé<small>PER</small></mark> &lt;b&gt; <mark"), "{shown}");
        assert!(shown.contains("<li><mark class=\"right\">Bern<small>LOC</small></mark></li>"), "{shown}");
        assert_eq!(shown.matches("<mark").count(), 3);
    }

    #[test]
    fn places_outside_the_text_are_no_panic() {
        let entities = [entity("A", "x", Some((5, 900))), entity("B", "y", None), entity("C", "z", Some((3, 1)))];
        let shown = reading("team", "", "short", &entities, |_| "wrong", &[&entities[0]]);
        assert_eq!((shown.matches("<li>").count(), shown.matches("missed: ").count()), (4, 1));
    }
}
