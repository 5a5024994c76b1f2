//! The documents that may be shown: those of the pool whose gold holds an asked type, each with what
//! its text is apart from case, spaces and punctuation.

use super::{EmbedError, Kind};
use crate::ie::{Document, Extraction, Schema};
use crate::store::{each_document, hash_bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use unicode_normalization::UnicodeNormalization;

/// Documents, and which of them hold which type.
pub(super) struct Pool {
    pub documents: Vec<Document>,
    /// Per document: equal for texts of the same letters and digits.
    pub texts: Vec<u128>,
    /// Ordinals of documents, ascending.
    pub with: BTreeMap<(Kind, String), Vec<u32>>,
    /// Documents that were read.
    pub read: usize,
}

impl Pool {
    /// Reads a pool; only what can be chosen is kept.
    pub fn read(path: &Path, schema: &Schema) -> Result<Pool, EmbedError> {
        let fail = |cause: String| EmbedError::Pool { path: path.to_owned(), cause };
        let mut pool = Pool { documents: Vec::new(), texts: Vec::new(), with: BTreeMap::new(), read: 0 };
        for document in each_document(path)? {
            let mut document = document?;
            pool.read += 1;
            let gold = document.gold.as_ref().ok_or_else(|| {
                fail(format!("document \"{}\" has no gold; demonstrations show what is right", document.id))
            })?;
            let types = types(gold, schema);
            if types.is_empty() || document.is_blank() {
                continue;
            }
            let at = u32::try_from(pool.documents.len()).map_err(|_| fail("more than 4294967296 documents".into()))?;
            for of in types {
                pool.with.entry(of).or_default().push(at);
            }
            pool.texts.push(bare(&document.text));
            document.meta = String::new();
            pool.documents.push(document);
        }
        match pool.documents.is_empty() {
            true => Err(fail(format!(
                "none of its {} documents has gold of a type of the schema; is it annotated with the same labels?",
                pool.read
            ))),
            false => Ok(pool),
        }
    }
}

/// The asked types that a document's gold holds.
fn types(gold: &Extraction, schema: &Schema) -> BTreeSet<(Kind, String)> {
    let entities = gold.entities.iter().map(|entity| (Kind::Entity, &entity.label));
    let relations = gold.relations.iter().map(|relation| (Kind::Relation, &relation.label));
    let events = gold.events.iter().map(|event| (Kind::Event, &event.label));
    let asked = |kind: Kind, label: &String| match kind {
        Kind::Entity => schema.entities.iter().any(|asked| asked.label == *label),
        Kind::Relation => schema.relations.iter().any(|asked| asked.label == *label),
        Kind::Event => schema.events.iter().any(|asked| asked.label == *label),
    };
    let all = entities.chain(relations).chain(events);
    all.filter(|(kind, label)| asked(*kind, label)).map(|(kind, label)| (kind, label.clone())).collect()
}

/// Letters and digits of a text in compatibility form and lower case; the text itself where it has
/// none.
pub(super) fn bare(text: &str) -> u128 {
    let letters: String = text.nfkc().flat_map(char::to_lowercase).filter(|c| c.is_alphanumeric()).collect();
    let hash = hash_bytes(if letters.is_empty() { text.trim().as_bytes() } else { letters.as_bytes() });
    u128::from_str_radix(&hash[..32], 16).expect("a hash is hexadecimal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_spaces_punctuation_and_the_form_of_accents_make_no_other_text() {
        let same = ["Café No. 5", "cafe\u{301} no 5", "CAFÉ  No.5!", "ｃａｆé\tno５"];
        assert!(same.iter().all(|text| bare(text) == bare(same[0])));
        assert_ne!(bare("Café No. 5"), bare("Café No. 6"));
        assert!(bare("...") != bare("?!") && bare("...") == bare(" ... "));
    }
}
