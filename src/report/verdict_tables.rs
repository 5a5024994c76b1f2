//! What the sample says of every system, in tables: tests, seeds, and what documents take.

use super::number::{amount, count, difference, interval, maybe, percent};
use super::tables::{Table, names};
use crate::eval::Comparison;
use crate::eval::cautions::chance;
use crate::eval::economics::{Economics, Unit};
use crate::eval::randomisation::SHUFFLES_PER_REPLICATE;
use crate::eval::table::{NOTHING, plain};
use crate::eval::verdict::{NonInferiority, Tested};

/// Types that differ are shown up to this number.
const TYPES: usize = 20;

/// Every system against the reference, all types together.
pub fn tests(comparison: &Comparison) -> Option<Table> {
    let mut rows = Vec::new();
    for row in &comparison.systems {
        for test in row.tests.iter().filter(|test| test.label.is_none()) {
            let mut cells = vec![row.name.clone(), test.measure.word().to_string(), percent(Some(test.f1))];
            cells.extend(tested(test));
            rows.push(cells);
        }
    }
    let caption = format!(
        "F1 against {}, in points. Δ with its paired 95 % interval; p by approximate randomisation ({} shuffles), and \
         after Holm’s correction for these {} tests. “As good” asks whether the loss is below {} points: yes or no only \
         if the whole interval says so.",
        comparison.reference,
        count((SHUFFLES_PER_REPLICATE * comparison.resampling.replicates) as u64),
        rows.len(),
        plain(comparison.delta * 100.0, 1)
    );
    let head = names(&["System", "Measure", "F1", "Δ", "p", "p, Holm", "As good"]);
    (!rows.is_empty()).then_some(Table { id: "tests", caption, head, rows })
}

fn tested(test: &Tested) -> [String; 4] {
    let as_good = match test.non_inferiority {
        NonInferiority::Shown => "yes",
        NonInferiority::Refuted => "no",
        NonInferiority::Undecided => "cannot tell",
    };
    [difference(Some(test.difference)), chance(test.p), chance(test.p_holm), as_good.to_string()]
}

/// Of all types of all systems, those that differ once all of them were asked about.
pub fn types_apart(comparison: &Comparison) -> Option<Table> {
    let all = || comparison.systems.iter().flat_map(|row| row.tests.iter().map(move |test| (row, test)));
    let asked = all().filter(|(_, test)| test.label.is_some()).count();
    let mut found: Vec<_> = all().filter(|(_, test)| test.label.is_some() && test.p_holm < 0.05).collect();
    found.sort_by(|a, b| a.1.p_holm.total_cmp(&b.1.p_holm));
    let row = |(row, test): &(&crate::eval::compare::Row, &Tested)| {
        let label = test.label.clone().unwrap_or_default();
        let mut cells = vec![row.name.clone(), label, count(test.gold), percent(Some(test.f1))];
        cells.extend(tested(test));
        cells
    };
    let rows: Vec<Vec<String>> = found.iter().take(TYPES).map(row).collect();
    let more = if found.len() > TYPES { format!(" {TYPES} of them are shown.") } else { String::new() };
    let caption = format!(
        "Types in which a system differs from {}: {} of {asked} questions are left after Holm’s correction for all of \
         them.{more}",
        comparison.reference,
        found.len()
    );
    let head = names(&["System", "Type", "Gold", "F1", "Δ", "p", "p, Holm", "As good"]);
    (asked > 0).then_some(Table { id: "types-apart", caption, head, rows })
}

/// Systems that were trained several times.
pub fn seeds(comparison: &Comparison) -> Option<Table> {
    let row = |one: &crate::eval::seeds::Seeds| {
        vec![
            one.name.clone(),
            one.measure.word().to_string(),
            count(one.systems.len() as u64),
            percent(Some(one.mean)),
            interval(one.interval),
            plain(one.deviation * 100.0, 1),
            percent(Some(one.least)),
            percent(Some(one.most)),
            difference(one.difference),
        ]
    };
    let rows: Vec<Vec<String>> = comparison.seeds.iter().map(row).collect();
    let caption = format!(
        "Mean F1 over seeds; its interval holds for other documents and other seeds. Δ is the mean’s difference to {}.",
        comparison.reference
    );
    let head = names(&["System", "Measure", "Seeds", "Mean F1", "95 %", "S.d.", "Least", "Most", "Δ"]);
    (!rows.is_empty()).then_some(Table { id: "seeds", caption, head, rows })
}

/// What the systems take, as totals and as multiples of the reference.
pub fn usage(of: &Economics) -> Table {
    let whole = |value: Option<u64>| value.map_or_else(|| NOTHING.to_string(), count);
    let times = |value: Option<f64>| value.map_or_else(|| NOTHING.to_string(), |value| format!("{}×", amount(value)));
    let row = |one: &crate::eval::economics::Usage| {
        let seconds = |at: usize| maybe(one.seconds.map(|seconds| seconds[at]));
        let mut cells = vec![
            one.name.clone(),
            if one.on_frontier { "yes" } else { "" }.to_string(),
            count(one.calls),
            whole(one.prompt_tokens),
            whole(one.completion_tokens),
            times(one.token_ratio),
            seconds(1),
            seconds(2),
            seconds(3),
            maybe(one.documents_per_second),
            times(one.latency_ratio),
        ];
        if let Some(currency) = &of.currency {
            cells.push(one.money.map_or_else(|| NOTHING.to_string(), |money| format!("{currency}{}", amount(money))));
            cells.push(times(one.cost_ratio));
        }
        cells
    };
    let mut head = names(&[
        "System",
        "Frontier",
        "Calls",
        "Tokens read",
        "Written",
        "Tokens ×",
        "p50, s",
        "p95, s",
        "p99, s",
        "Documents/s",
        "Time ×",
    ]);
    if of.currency.is_some() {
        head.extend(names(&["Money", "Money ×"]));
    }
    let unit = match of.frontier_unit {
        Unit::Money => "money",
        Unit::Tokens => "tokens",
    };
    let mut caption = format!(
        "All test documents together; × is how many times as much as {} takes a document. On the frontier, no other \
         system finds as much for less {unit}. Documents a second count model time, one document after the other.",
        of.reference
    );
    if let (Some(student), Some(once)) = (&of.student, of.once) {
        let currency = of.currency.as_deref().unwrap_or_default();
        caption += &match of.break_even {
            Some(documents) => {
                format!(
                    " Making {student} took {currency}{}, earned back after {} documents.",
                    amount(once),
                    count(documents)
                )
            }
            None => format!(
                " Making {student} took {currency}{}; no number of documents earns it back at these prices, or a price is unknown.",
                amount(once)
            ),
        };
    }
    Table { id: "usage", caption, head, rows: of.systems.iter().map(row).collect() }
}
