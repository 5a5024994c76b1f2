//! The deduper against exact Jaccard on generated pairs, and on texts that people wrote twice.

use super::*;
use std::collections::BTreeSet;

/// Words that no other text has, the first `common` excepted: `words` words of text `salt`.
fn text(salt: usize, common: usize, words: usize) -> String {
    let word = |at: usize| if at < common { format!("c{at}") } else { format!("t{salt}x{at}") };
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

/// Pairs of 104 words that differ in the last `differing`; their exact share of common shingles is
/// `(100 - differing) / (100 + differing)`.
fn pairs(differing: usize, count: usize) -> Vec<(String, String)> {
    let prefixed = |pair: usize, side: usize| {
        let words = text(1000 * pair + side, 104 - differing, 104);
        words
            .split(' ')
            .map(|word| if word.starts_with('c') { format!("p{pair}{word} ") } else { format!("{word} ") })
            .collect()
    };
    (0..count).map(|pair| (prefixed(pair, 1), prefixed(pair, 2))).collect()
}

fn exact_share(one: &str, two: &str) -> f64 {
    let set = |text: &str| shingles(&words(text)).into_iter().collect::<BTreeSet<u64>>();
    let (one, two) = (set(one), set(two));
    one.intersection(&two).count() as f64 / one.union(&two).count() as f64
}

fn deduper(threshold: f64) -> Deduper {
    Deduper::new(threshold, &std::env::temp_dir()).unwrap()
}

fn found(threshold: f64, texts: &[&str]) -> Vec<Duplicate> {
    let mut deduper = deduper(threshold);
    for (at, text) in texts.iter().enumerate() {
        let sketch = deduper.sketch(text);
        deduper.add(at as u32, sketch).unwrap();
    }
    deduper.duplicates().unwrap()
}

#[test]
fn bands_are_cut_so_that_texts_at_the_threshold_meet() {
    // 0.85: 8 rows, 16 bands: 1 - (1 - 0.85^8)^16 = 0.9938; with 9 rows and 14 bands it is 0.975.
    assert_eq!(rows(0.85), 8);
    assert!((meeting(0.85, 8) - 0.9938).abs() < 1e-4);
    assert!((meeting(0.85, 9) - 0.9750).abs() < 1e-4);
    // 0.5: 3 rows, 42 bands: 1 - (1 - 0.125)^42 = 0.9963.
    assert_eq!(rows(0.5), 3);
    assert_eq!(rows(1.0), LANES);
}

#[test]
fn pairs_meet_as_often_as_the_s_curve_says_and_are_estimated_as_near_as_they_are() {
    let deduper = deduper(0.85);
    // (differing words, exact share): (100 - d) / (100 + d).
    for (differing, share) in [(2, 98.0 / 102.0), (8, 92.0 / 108.0), (18, 82.0 / 118.0), (33, 67.0 / 133.0)] {
        let pairs = pairs(differing, 400);
        let (mut met, mut sum, mut squares) = (0, 0.0, 0.0);
        for (one, two) in &pairs {
            assert!((exact_share(one, two) - share).abs() < 1e-9, "{differing}");
            let (one, two) = (deduper.sketch(one), deduper.sketch(two));
            met += usize::from(one.keys.iter().zip(&two.keys).any(|(a, b)| a == b));
            let error = equal_share(one.lanes.iter(), two.lanes.iter()) - share;
            (sum, squares) = (sum + error, squares + error * error);
        }
        let (met, expected, count) = (met as f64 / 400.0, meeting(share, 8), 400.0_f64);
        // Four standard deviations of a share of 400, and a pair more.
        let room = 4.0 * (expected * (1.0 - expected) / count).sqrt() + 1.0 / count;
        assert!((met - expected).abs() <= room, "at {share}: {met} met, {expected} expected");
        // One estimate is off by sqrt(J (1 - J) / 128); the mean of 400 by a twentieth of that.
        let sigma = (share * (1.0 - share) / LANES as f64).sqrt();
        assert!((sum / count).abs() < 4.0 * sigma / count.sqrt(), "at {share}: biased by {}", sum / count);
        assert!(((squares / count).sqrt() / sigma - 1.0).abs() < 0.2, "at {share}: {} is not {sigma}", squares / count);
    }
}

#[test]
fn near_pairs_are_found_and_pairs_that_share_half_are_not() {
    let texts = |differing| pairs(differing, 150).into_iter().flat_map(|(one, two)| [one, two]).collect::<Vec<_>>();
    let near = texts(2);
    let near = found(0.85, &near.iter().map(String::as_str).collect::<Vec<_>>());
    // 0.96: meets with 1 - 1e-10, and an estimate below 0.85 is six standard deviations away.
    assert_eq!(near.len(), 150);
    for (pair, duplicate) in near.iter().enumerate() {
        assert_eq!((duplicate.kept, duplicate.dropped), (2 * pair as u32, 2 * pair as u32 + 1));
        assert!(matches!(duplicate.likeness, Likeness::Near(share) if share >= 0.85));
    }
    // 0.50: meets with 0.06, and an estimate above 0.85 is eight standard deviations away.
    let half = texts(33);
    assert_eq!(found(0.85, &half.iter().map(String::as_str).collect::<Vec<_>>()), []);
}

#[test]
fn white_space_and_encodings_of_accents_make_no_new_text_but_case_does() {
    let composed = "Zoë met  Ann in Málaga on a Sunday.";
    let decomposed: String = composed.nfd().collect();
    let texts = ["other", composed, &format!("\t{decomposed} \r\n"), "ZOË met Ann in Málaga on a Sunday."];
    let exact = Duplicate { dropped: 2, kept: 1, likeness: Likeness::Exact };
    assert_eq!(found(0.0, &texts), [exact]);
    // Case and signs are nothing to the shingles.
    assert_eq!(found(0.85, &texts), [exact, Duplicate { dropped: 3, kept: 1, likeness: Likeness::Near(1.0) }]);
}

#[test]
fn scripts_without_spaces_are_compared_by_characters() {
    let long = "李雷在北京大学读了四年书毕业之后他去了上海的一家公司工作现在他住在浦东每天坐地铁上班";
    // 42 characters, the last two differ: 36 of 40 shingles are common.
    let changed = long.replace("上班", "回家");
    assert!((exact_share(long, &changed) - 36.0 / 40.0).abs() < 1e-9);
    assert_eq!(found(0.8, &[long, "今天天气很好我们去公园吧", &changed]).len(), 1);
}

#[test]
fn wordless_and_empty_texts_are_near_to_nothing_but_exact_copies_are_found() {
    let dropped: Vec<u32> = found(0.85, &["…", "!", "…", "", " "]).iter().map(|copy| copy.dropped).collect();
    assert_eq!(dropped, [2, 4]);
}

#[test]
fn a_chain_of_near_copies_is_one_group_and_its_first_is_kept() {
    // Three words at the end, then three at the beginning: neighbours share 97/103 = 0.94, the ends 94/106 = 0.89.
    let replaced = |step: usize, at: usize| (step > 0 && at >= 101) || (step > 1 && at < 3);
    let word = |step: usize, at: usize| format!("{}{at} ", if replaced(step, at) { "x" } else { "w" });
    let chain: Vec<String> = (0..3).map(|step| (0..104).map(|at| word(step, at)).collect()).collect();
    assert!((exact_share(&chain[1], &chain[2]) - 97.0 / 103.0).abs() < 1e-9);
    assert!((exact_share(&chain[0], &chain[2]) - 94.0 / 106.0).abs() < 1e-9);
    let found = found(0.9, &chain.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(found.iter().map(|copy| (copy.dropped, copy.kept)).collect::<Vec<_>>(), [(1, 0), (2, 0)]);
}

#[test]
fn ordinals_may_leave_gaps_and_the_answer_is_the_same_every_time() {
    let run = || {
        let mut deduper = deduper(0.85);
        for at in 0..200u32 {
            let sketch = deduper.sketch(&text(at as usize % 50, 0, 30));
            deduper.add(3 * at + 1, sketch).unwrap();
        }
        deduper.duplicates().unwrap()
    };
    let once = run();
    assert_eq!(once.len(), 150);
    assert!(once.iter().all(|copy| copy.dropped % 150 == copy.kept % 150 && copy.kept < 150));
    assert_eq!(once, run());
}
