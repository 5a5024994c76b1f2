//! A debate as text: columns that fit the terminal, wide characters counted as two, colour only
//! where somebody looks. What a trace says is hostile: control characters are shown, not obeyed.

use crate::ie::{Cost, Status};
use crate::trace::Settled;
use crate::trace::show::{Backed, Cell, Change, Debate, Item, Shown, Stand};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How to print.
pub(super) struct Look {
    /// Columns.
    pub width: usize,
    /// Whether escapes for colour are written.
    pub colour: bool,
    /// Whether raw answers are shown.
    pub raw: bool,
}

/// Narrowest column that an agent gets.
const NARROWEST: usize = 24;
/// The column of rounds.
const ROUND: usize = 4;

/// A line and how it is coloured.
type Line = (String, &'static str);

const PLAIN: &str = "";
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// The whole debate.
pub(super) fn page(shown: &Shown, look: &Look) -> String {
    let mut page = Page { look, text: String::new() };
    page.line(&format!("{}  {}  {}", shown.id, shown.protocol, status(shown.status)), BOLD, "");
    if let Some(error) = &shown.error {
        page.line(error, RED, "  ");
    }
    if let Some(text) = &shown.text {
        page.blank();
        page.line(text, PLAIN, "  ");
    }
    page.turns(&shown.turns);
    for (at, debate) in shown.conflicts.iter().enumerate() {
        page.debate(at + 1, debate);
    }
    page.superseded(&shown.superseded);
    if !shown.withdrawn.is_empty() {
        page.head("withdrawn: they contradict what another task confirmed");
        shown.withdrawn.iter().for_each(|claim| page.line(&format!("- {claim}"), DIM, "  "));
    }
    page.stands(&shown.stands);
    page.outcome(&shown.outcome, shown.missed.as_deref());
    page.blank();
    page.line(&spent(&shown.cost), DIM, "");
    page.text
}

struct Page<'l> {
    look: &'l Look,
    text: String,
}

impl Page<'_> {
    fn blank(&mut self) {
        self.text.push('\n');
    }

    fn head(&mut self, title: &str) {
        self.blank();
        self.line(title, BOLD, "");
    }

    /// A line, wrapped; continued lines are indented by two more.
    fn line(&mut self, said: &str, colour: &str, indent: &str) {
        for (at, part) in wrapped(said, self.look.width.saturating_sub(indent.len() + 2)).iter().enumerate() {
            let more = if at > 0 { "  " } else { "" };
            let part = self.painted(&format!("{indent}{more}{part}"), colour);
            self.text.push_str(&part);
            self.blank();
        }
    }

    fn painted(&self, text: &str, colour: &str) -> String {
        if self.look.colour && !colour.is_empty() { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Rows are stages and rounds, columns are agents; as many agents side by side as fit.
    fn turns(&mut self, cells: &[Cell]) {
        let mut stages: Vec<&str> = Vec::new();
        for cell in cells {
            if !stages.contains(&cell.stage.as_str()) {
                stages.push(&cell.stage);
            }
        }
        // Stages with the same agents are rows of one table.
        let mut groups: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
        for stage in stages {
            let mut agents: Vec<&str> = Vec::new();
            for cell in cells.iter().filter(|cell| cell.stage == stage) {
                if !agents.contains(&cell.agent.as_str()) {
                    agents.push(&cell.agent);
                }
            }
            match groups.iter_mut().find(|(known, _)| known.iter().any(|agent| agents.contains(agent))) {
                Some((known, of)) => {
                    of.push(stage);
                    let new: Vec<&str> = agents.into_iter().filter(|agent| !known.contains(agent)).collect();
                    known.extend(new);
                }
                None => groups.push((agents, vec![stage])),
            }
        }
        for (agents, stages) in groups {
            let cells: Vec<&Cell> = cells.iter().filter(|cell| stages.contains(&cell.stage.as_str())).collect();
            self.head(&stages.join(", "));
            let most = ((self.look.width - ROUND) / (NARROWEST + 3)).max(1);
            // Columns of equal width, and as many in each block as in the others.
            let blocks = agents.len().div_ceil(most);
            for block in agents.chunks(agents.len().div_ceil(blocks.max(1)).max(1)) {
                self.table(block, &cells, stages.len() > 1);
            }
        }
    }

    fn table(&mut self, agents: &[&str], cells: &[&Cell], name_stages: bool) {
        let width = ((self.look.width - ROUND) / agents.len()).saturating_sub(3).clamp(20, 60);
        let mut rows: Vec<(u32, &str)> = Vec::new();
        for cell in cells.iter().filter(|cell| agents.contains(&cell.agent.as_str())) {
            if !rows.contains(&(cell.round, cell.stage.as_str())) {
                rows.push((cell.round, cell.stage.as_str()));
            }
        }
        let heads: Vec<Vec<Line>> =
            agents.iter().map(|agent| wrapped(agent, width).into_iter().map(|line| (line, BOLD)).collect()).collect();
        self.row("R", &heads, width);
        self.rule(agents.len(), width);
        for (at, &(round, stage)) in rows.iter().enumerate() {
            if at > 0 {
                self.rule(agents.len(), width);
            }
            let columns: Vec<Vec<Line>> = agents
                .iter()
                .map(|agent| {
                    let of =
                        cells.iter().filter(|cell| cell.agent == **agent && cell.round == round && cell.stage == stage);
                    of.flat_map(|cell| self.cell(cell, width, name_stages)).collect()
                })
                .collect();
            self.row(&round.to_string(), &columns, width);
        }
    }

    fn rule(&mut self, columns: usize, width: usize) {
        self.text.push_str(&"-".repeat(ROUND - 1));
        for _ in 0..columns {
            self.text.push_str("-+-");
            self.text.push_str(&"-".repeat(width));
        }
        self.blank();
    }

    fn row(&mut self, round: &str, columns: &[Vec<Line>], width: usize) {
        for at in 0..columns.iter().map(Vec::len).max().unwrap_or(0).max(1) {
            let mut line = padded(if at == 0 { round } else { "" }, ROUND - 1);
            for column in columns {
                let (text, colour) = column.get(at).cloned().unwrap_or_default();
                line.push_str(" | ");
                line.push_str(&self.painted(&padded(&text, width), colour));
            }
            self.text.push_str(line.trim_end());
            self.blank();
        }
    }

    fn cell(&self, cell: &Cell, width: usize, name_stage: bool) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut put = |text: &str, colour: &'static str| {
            lines.extend(wrapped(text, width).into_iter().map(|line| (line, colour)));
        };
        if name_stage {
            put(&format!("[{}]", cell.stage), DIM);
        }
        for item in &cell.items {
            put(&marked(item), colour(item));
        }
        if cell.items.is_empty() && matches!(cell.status, Status::Ok | Status::Empty) {
            put("nothing", DIM);
        }
        if let Some(error) = &cell.error {
            put(&format!("! {}: {error}", status(cell.status)), RED);
        }
        notes(cell).iter().for_each(|note| put(note, DIM));
        if self.look.raw {
            put(&format!("raw: {}", cell.raw), DIM);
        }
        lines
    }

    fn debate(&mut self, number: usize, debate: &Debate) {
        self.head(&format!("conflict {number} ({}), claimed by {}", debate.stage, debate.claimants.join(", ")));
        debate.options.iter().for_each(|option| self.line(option, PLAIN, "  "));
        let mut round = None;
        for cell in &debate.said {
            if round != Some((&cell.stage, cell.round)) {
                round = Some((&cell.stage, cell.round));
                self.line(&format!("{} {}", cell.stage, cell.round), DIM, "  ");
            }
            let item = cell.items.first();
            let choice = item.map_or("-".to_owned(), |item| match &item.was {
                Some(was) => format!("~ {} (was {was})", item.item),
                None => item.item.clone(),
            });
            let sure = cell.confidence.map(|sure| format!("  {sure:.2}")).unwrap_or_default();
            let reason = cell.reason.as_ref().map(|reason| format!("  {reason}")).unwrap_or_default();
            let changed = item.is_some_and(|item| item.change == Change::Retyped);
            self.line(&format!("{}: {choice}{sure}{reason}", cell.agent), if changed { YELLOW } else { PLAIN }, "    ");
            if let Some(error) = &cell.error {
                self.line(&format!("! {}: {error}", status(cell.status)), RED, "      ");
            }
            notes(cell).iter().for_each(|note| self.line(note, DIM, "      "));
            if self.look.raw {
                self.line(&format!("raw: {}", cell.raw), DIM, "      ");
            }
        }
        let how = match debate.settled {
            Settled::Consensus => "consensus",
            Settled::Summarizer => "the summarizer",
            Settled::Majority => "the majority; the summarizer gave no usable answer",
            Settled::Failed => "nobody: no usable answer",
        };
        let rounds = if debate.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", debate.rounds) };
        let outcome = debate.outcome.as_deref().unwrap_or("no option");
        self.line(&format!("=> {outcome}; settled by {how} after {rounds}"), BOLD, "  ");
    }

    fn superseded(&mut self, cells: &[Cell]) {
        if cells.is_empty() {
            return;
        }
        self.head("asked again");
        for cell in cells {
            let error = cell.error.as_deref().unwrap_or("could not be read");
            self.line(&format!("{} {} {}: {error}", cell.stage, cell.round, cell.agent), PLAIN, "  ");
            if self.look.raw {
                self.line(&format!("raw: {}", cell.raw), DIM, "    ");
            }
        }
    }

    fn stands(&mut self, stands: &[Stand]) {
        if stands.len() < 2 {
            return;
        }
        self.head("how the extraction stood");
        for stand in stands {
            let delta = stand.delta.map(|delta| format!("  Δ = {delta}")).unwrap_or_default();
            let name = match stand.stage.as_str() {
                "outcome" => "outcome".to_owned(),
                stage => format!("{stage} {}", stand.round),
            };
            let changed = stand.items.iter().filter(|item| item.change != Change::Same).count();
            let count = stand.items.iter().filter(|item| item.change != Change::Gone).count();
            self.line(&format!("{name}: {count} items, {changed} changes{delta}"), BOLD, "  ");
            for item in stand.items.iter().filter(|item| item.change != Change::Same || item.right == Some(false)) {
                self.line(&marked(item), colour(item), "    ");
            }
        }
    }

    fn outcome(&mut self, outcome: &[Backed], missed: Option<&[String]>) {
        self.head("outcome");
        for backed in outcome {
            let behind = backed.support.map(|support| {
                let sure = support.logprob.map(|log| format!(", p {:.2}", log.exp())).unwrap_or_default();
                let judged = if support.judged { ", judged" } else { "" };
                format!("  ({} of {}{sure}{judged})", support.votes, support.voters)
            });
            let (mark, colour) = if backed.right == Some(false) { ("✗ ", RED) } else { ("", PLAIN) };
            self.line(&format!("{mark}{}{}", backed.item, behind.unwrap_or_default()), colour, "  ");
        }
        if outcome.is_empty() {
            self.line("nothing", DIM, "  ");
        }
        for line in missed.unwrap_or_default() {
            self.line(&format!("missed: {line}"), RED, "  ");
        }
    }
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Empty => "empty",
        Status::Failed => "failed",
        Status::Refused => "refused",
    }
}

fn spent(cost: &Cost) -> String {
    let tokens = |count: Option<u64>| count.map_or("unknown".to_owned(), |count| count.to_string());
    format!(
        "{} calls, {} tokens read, {} written, {:.1} s",
        cost.calls,
        tokens(cost.prompt_tokens),
        tokens(cost.completion_tokens),
        cost.seconds
    )
}

fn marked(item: &Item) -> String {
    let mark = match item.change {
        Change::Same => "",
        Change::New => "+ ",
        Change::Gone => "- ",
        Change::Retyped => "~ ",
    };
    let was = item.was.as_ref().map(|was| format!(" (was {was})")).unwrap_or_default();
    format!("{mark}{}{}{was}", if item.right == Some(false) { "✗ " } else { "" }, item.item)
}

fn colour(item: &Item) -> &'static str {
    match (item.right, item.change) {
        (Some(false), _) => RED,
        (_, Change::New) => GREEN,
        (_, Change::Retyped) => YELLOW,
        (_, Change::Gone) => DIM,
        _ => PLAIN,
    }
}

fn notes(cell: &Cell) -> Vec<String> {
    let mut notes = Vec::new();
    if cell.asked_again {
        notes.push("second answer".to_owned());
    }
    if cell.retries > 0 {
        notes.push(format!("{} failed attempts before", cell.retries));
    }
    notes.extend(cell.absent.iter().map(|name| format!("no entity: {name}")));
    notes.extend(cell.repairs.iter().map(|repair| format!("repair: {repair}")));
    notes.extend(cell.dropped.iter().map(|(item, reason)| format!("dropped {item}: {reason}")));
    notes
}

/// Text for a terminal: no control character, no change of direction.
fn tame(said: &str) -> String {
    said.chars()
        .map(|c| match c {
            '\n' => c,
            '\t' => ' ',
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            _ if c.is_control() => '\u{fffd}',
            _ => c,
        })
        .collect()
}

/// Lines of at most `width` columns, broken at spaces where there are any, anywhere in scripts
/// without them.
fn wrapped(said: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in tame(said).split('\n') {
        let (mut start, mut used, mut space) = (0, 0, None);
        for (at, c) in line.char_indices() {
            let wide = c.width().unwrap_or(0);
            if used + wide > width.max(2) {
                let end = space.filter(|&space| space > start).unwrap_or(at);
                lines.push(line[start..end].trim_end().to_owned());
                start = end + line[end..].len() - line[end..].trim_start_matches(' ').len();
                start = start.min(at);
                (used, space) = (line[start..at].width(), None);
            }
            used += wide;
            if c == ' ' || wide == 2 {
                space = Some(at + c.len_utf8());
            }
        }
        lines.push(line[start..].trim_end().to_owned());
    }
    lines
}

/// Filled with spaces up to `width` columns.
fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_count_as_two_and_no_line_is_wider_than_asked() {
        let said = "인물 \"김민수\" 组织 \"北京大学\" and a_long_word_that_does_not_fit_anywhere";
        for width in [10, 12, 21, 80] {
            let lines = wrapped(said, width);
            assert!(lines.iter().all(|line| line.width() <= width), "{width}: {lines:?}");
            let bare = |text: &str| text.replace(' ', "");
            assert_eq!(bare(&lines.concat()), bare(said));
        }
        assert_eq!(padded("王芳", 6).width(), 6);
    }

    #[test]
    fn what_a_trace_says_moves_no_cursor() {
        assert_eq!(wrapped("a\u{1b}[2Jb\u{202e}c", 20), ["a\u{fffd}[2Jb\u{fffd}c"]);
    }
}
