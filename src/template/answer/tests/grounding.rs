//! Where strings stand: scripts, folding, word boundaries, nesting and conflicts.

use super::super::ground::{Listed, ground};
use super::*;

/// Label and code points.
type Marked = (String, usize, usize);

/// Marks as label and code points, and what was dropped.
fn marks(text: &str, listed: &[(&str, &str)]) -> (Vec<Marked>, Vec<(usize, &'static str)>) {
    let listed: Vec<Listed> = listed.iter().map(|&(text, label)| Listed { text, label, exact_only: false }).collect();
    let grounded = ground(text, &listed);
    let place = |mark: &super::super::ground::Mark| {
        let (start, end) = mark.span.to_code_points(text);
        (listed[mark.listed].label.to_owned(), start, end)
    };
    (grounded.marks.iter().map(place).collect(), grounded.dropped)
}

/// Code points of all marks of strings of one label.
fn spans(text: &str, listed: &[&str]) -> Vec<(usize, usize)> {
    let listed: Vec<(&str, &str)> = listed.iter().map(|&text| (text, "X")).collect();
    marks(text, &listed).0.into_iter().map(|(_, start, end)| (start, end)).collect()
}

#[test]
fn c09_offsets_are_code_points_whatever_stands_before() {
    let text = "Zoë sah 王芳 🎡 bei Köln.";
    let reading = read(r#"{"LOC":["Köln"],"PER":["王芳"]}"#, text);
    assert_eq!(found(&reading, text), [("PER", "王芳", 8, 10), ("LOC", "Köln", 17, 21)]);
}

#[test]
fn c10_composed_answers_match_decomposed_text_in_the_texts_own_code_points() {
    // "Noël" and "André" with combining marks: 5 and 6 code points.
    let text = "Noe\u{308}l et Andre\u{301} a\u{300} E\u{301}vry";
    assert_eq!(spans(text, &["Noël", "André", "Évry"]), [(0, 5), (9, 15), (19, 24)]);
    // 서울 in conjoining jamo: 3 + 3 code points.
    let text = "\u{1109}\u{1165}\u{110b}\u{116e}\u{11af} is Seoul";
    assert_eq!(spans(text, &["서울"]), [(0, 5)]);
    // The other way round: decomposed answer, composed text.
    assert_eq!(spans("né à Évry", &["E\u{301}vry"]), [(5, 9)]);
    // Marks in another order are the same character.
    assert_eq!(spans("q\u{323}\u{307}x", &["Q\u{307}\u{323}X"]), [(0, 4)]);
}

#[test]
fn c10_folding_that_changes_lengths_never_shifts_a_span() {
    assert_eq!(spans("İİİ met ACME", &["acme"]), [(8, 12)]);
    assert_eq!(spans("ßßß … Straße X", &["STRASSE x"]), [(6, 14)]);
    assert_eq!(spans("a\u{ad}b New\u{a0}\u{200b} \nYork", &["new york"]), [(4, 15)]);
    assert_eq!(spans("Jean–Luc O’Neil “Q”", &["Jean-Luc", "O'Neil", "\"Q\""]), [(0, 8), (9, 15), (16, 19)]);
    assert_eq!(spans("ΟΔΟΣ οδος", &["οδός", "οδοσ"]), [(0, 4), (5, 9)]);
}

#[test]
fn a_base_character_is_never_split_from_its_marks() {
    assert_eq!(spans("Zoe\u{308} left", &["Zoe"]), []);
    assert_eq!(spans("Zoe\u{308} left", &["\u{308}"]), []);
    assert_eq!(spans("한 글", &["하"]), []);
    assert_eq!(spans("\u{1112}\u{1161}\u{11ab}", &["\u{1112}\u{1161}"]), []);
    assert_eq!(spans("👩\u{200d}🚀 flew", &["👩", "🚀"]), []);
    assert_eq!(spans("Straße", &["stras"]), []);
}

#[test]
fn a_word_boundary_is_asked_for_only_where_words_are_separated() {
    assert_eq!(marks("Newark", &[("New", "X")]), (vec![], vec![(0, "only inside a word")]));
    assert_eq!(spans("Ann's 3rd Ann-Marie, Annie; (Ann) x_Ann", &["Ann"]), [(0, 3), (10, 13), (29, 32), (36, 39)]);
    assert_eq!(spans("12024 2024", &["2024"]), [(6, 10)]);
    assert_eq!(spans("Анна и Аннабель", &["Анна"]), [(0, 4)]);
    assert_eq!(spans("我在北京大学。3月", &["北京", "3"]), [(2, 4), (7, 8)]);
    assert_eq!(spans("東京タワーへ서울에서", &["タワー", "서울"]), [(2, 5), (6, 8)]);
    assert_eq!(spans("ฉันอยู่กรุงเทพมาก", &["กรุงเทพ"]), [(7, 14)]);
    assert_eq!(spans("Acme株式会社", &["Acme"]), [(0, 4)]);
}

#[test]
fn a_listed_string_marks_every_occurrence_outside_longer_listed_mentions() {
    let text = "New York City is not New York. York is old.";
    assert_eq!(spans(text, &["York", "New York", "New York City"]), [(0, 13), (21, 29), (31, 35)]);
    let (_, dropped) = marks("New York fell", &[("New York", "X"), ("York", "X"), ("ork", "X")]);
    assert_eq!(dropped, [(1, "only inside a longer mention"), (2, "only inside a longer mention")]);
    // Overlap without nesting: both stand.
    assert_eq!(spans("New York City", &["New York", "York City"]), [(0, 8), (4, 13)]);
    assert_eq!(spans("a a a a a", &["a a"]), [(0, 3), (4, 7)]);
    // A folded match nests like an exact one.
    assert_eq!(spans("NEW YORK and YORK", &["New York", "YORK"]), [(0, 8), (13, 17)]);
}

#[test]
fn exact_occurrences_are_preferred_to_folded_ones() {
    assert_eq!(spans("US tells us", &["US"]), [(0, 2)]);
    assert_eq!(spans("us and Us", &["US"]), [(0, 2), (7, 9)]);
    assert_eq!(spans("us and Us", &["US", "uS", "us"]), [(0, 2), (7, 9)]);
}

#[test]
fn one_string_under_two_labels_is_dealt_in_the_order_of_the_claims() {
    let two = [("Lincoln", "PER"), ("Lincoln", "LOC")];
    let labels =
        |text: &str, listed: &[(&str, &str)]| marks(text, listed).0.into_iter().map(|mark| mark.0).collect::<Vec<_>>();
    assert_eq!(labels("Lincoln left Lincoln", &two), ["PER", "LOC"]);
    assert_eq!(labels("Lincoln left Lincoln for Lincoln", &two), ["PER", "LOC", "PER"]);
    assert_eq!(marks("Lincoln left", &two), (vec![("PER".into(), 0, 7)], vec![(1, "label conflict")]));
    let looped = [two[0], two[0], two[0], two[1]];
    assert_eq!(labels("Lincoln left Lincoln", &looped), ["PER", "LOC"]);
    // Spellings that fold to one occurrence conflict like equal ones.
    assert_eq!(
        marks("Acme fell", &[("ACME", "PER"), ("Acme", "ORG")]),
        (vec![("PER".into(), 0, 4)], vec![(1, "label conflict")])
    );
}

#[test]
fn c11_names_anywhere_in_a_long_text_are_found_once_each() {
    let mut text = String::new();
    let mut expected = Vec::new();
    let mut length = 0;
    for at in 0.. {
        if length >= 100_000 {
            break;
        }
        let piece = ["filler ü ", "words ", "New York ", "王芳, ", "a ", "ß-ß "][(at * at + at / 5) % 6];
        if piece.starts_with('N') {
            expected.push((length, length + 8));
        }
        text.push_str(piece);
        length += piece.chars().count();
    }
    text.push_str("New York");
    expected.push((length, length + 8));
    assert!(expected.len() > 1000);
    assert_eq!(spans(&text, &["New York"]), expected);
}

#[test]
fn hostile_repetition_costs_linear_work() {
    // 40,000 characters that every one of 700 nested patterns matches at every place, with
    // and without word boundaries, exact and folded: matching one by one would take minutes.
    for (text, unit) in [("的".repeat(40_000), "的"), ("a ".repeat(20_000), "a "), ("A ".repeat(20_000), "a ")] {
        let patterns: Vec<String> = (1..700).map(|n| unit.repeat(n)).collect();
        let listed: Vec<&str> = patterns.iter().map(String::as_str).collect();
        assert!(!spans(&text, &listed).is_empty());
    }
    let variants: Vec<String> =
        (0..4096u32).map(|bits| (0..12).map(|at| if bits >> at & 1 == 1 { 'A' } else { 'a' }).collect()).collect();
    let listed: Vec<&str> = variants.iter().map(String::as_str).collect();
    assert_eq!(spans(&"aaaaaaaaaaab ".repeat(2000), &listed), []);
    let accents = format!("x{}", "\u{301}".repeat(100_000));
    assert_eq!(spans(&accents, &["x", "\u{301}", "x\u{301}"]), []);
}
