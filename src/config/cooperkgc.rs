//! `[team.cooperkgc]`: who sits in the team of the protocol `cooperkgc`, whose answer reaches whom,
//! and how often each expert answers (CooperKGC, sections 4.1 to 4.3; each ablation is a key).

use super::plan::{ConfigError, nearest, one_of};
use super::schema_file::read_schema;
use crate::ie::Schema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most rounds after the first answers; the paper stops at 4.
const MOST_ROUNDS: u32 = 20;
/// Most experts; each round asks all of them.
const MOST_EXPERTS: usize = 26;
/// Longest name of an expert, in characters: it stands in every prompt.
const LONGEST_NAME: usize = 40;
/// Between the sampling seeds of experts that are asked the same: more than there are repeats.
const APART: u64 = 1000;

/// The team of CooperKGC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CooperkgcSection {
    /// Who sits in the team. Default: `NER`, `RE` and `EE`, one for each task that the schema has types of.
    pub experts: Vec<ExpertSection>,
    /// Whose last answer reaches whom, as `["FROM", "TO"]`. Default: everybody's reaches everybody else; `[]`: nobody's.
    pub edges: Option<Vec<[String; 2]>>,
    /// Rounds of collaboration after the first answer, for experts in entities; a call each. In 0..=20. Default 2.
    #[schemars(range(max = 20))]
    pub entity_rounds: u32,
    /// The same for experts in relations. In 0..=20. Default 3.
    #[schemars(range(max = 20))]
    pub relation_rounds: u32,
    /// The same for experts in events. In 0..=20. Default 3.
    #[schemars(range(max = 20))]
    pub event_rounds: u32,
    /// Whether an answer reaches others as its items alone; otherwise as it was given, reasons included. Default true.
    pub simplify: bool,
    /// Whether prompts open with the team's purpose and the expert's own field. Default true.
    pub background: bool,
}

/// One expert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertSection {
    /// As edges and the other experts name it.
    pub name: String,
    /// What it looks for: `entities`, `relations` or `events`.
    #[schemars(extend("enum" = ["entities", "relations", "events"]))]
    pub task: String,
    /// Another schema, TOML or JSON: the expert informs the others and answers nothing itself. Default: the plan's.
    #[serde(default)]
    pub schema: Option<PathBuf>,
    /// Its rounds of collaboration, in 0..=20. Default: those of its task.
    #[serde(default)]
    #[schemars(range(max = 20))]
    pub rounds: Option<u32>,
}

impl Default for CooperkgcSection {
    fn default() -> CooperkgcSection {
        CooperkgcSection {
            experts: vec![],
            edges: None,
            entity_rounds: 2,
            relation_rounds: 3,
            event_rounds: 3,
            simplify: true,
            background: true,
        }
    }
}

/// What an expert looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExpertTask {
    /// Named entities.
    Entities,
    /// Relations between them, as triples.
    Relations,
    /// Events with triggers and arguments.
    Events,
}

impl ExpertTask {
    /// All, in the order of answers.
    pub const ALL: [ExpertTask; 3] = [ExpertTask::Entities, ExpertTask::Relations, ExpertTask::Events];

    /// As in configs, answers and traces.
    pub fn name(self) -> &'static str {
        match self {
            ExpertTask::Entities => "entities",
            ExpertTask::Relations => "relations",
            ExpertTask::Events => "events",
        }
    }

    /// What an expert of this task is called by default.
    pub fn expert(self) -> &'static str {
        match self {
            ExpertTask::Entities => "NER",
            ExpertTask::Relations => "RE",
            ExpertTask::Events => "EE",
        }
    }

    /// The labels that a schema has for it.
    pub fn labels(self, schema: &Schema) -> Vec<&str> {
        match self {
            ExpertTask::Entities => schema.entities.iter().map(|kind| kind.label.as_str()).collect(),
            ExpertTask::Relations => schema.relations.iter().map(|kind| kind.label.as_str()).collect(),
            ExpertTask::Events => schema.events.iter().map(|kind| kind.label.as_str()).collect(),
        }
    }
}

/// An expert, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Expert {
    /// As edges and the other experts name it.
    pub name: String,
    /// What it looks for.
    pub task: ExpertTask,
    /// Its own schema; `None` for the plan's, and only then its answer is the team's.
    pub schema: Option<Schema>,
    /// Rounds after its first answer.
    pub rounds: u32,
    /// Added to the sampling seed: experts that are asked the same do not draw the same.
    pub seed: u64,
}

/// A team that can work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cooperation {
    /// In the order in which they are asked and shown.
    pub experts: Vec<Expert>,
    /// Ordinals of experts: the first one's last answer reaches the second.
    pub edges: Vec<(usize, usize)>,
    /// Whether answers travel as their items alone.
    pub simplify: bool,
    /// Whether prompts open with the team's purpose and the expert's field.
    pub background: bool,
}

impl Cooperation {
    /// One expert for each task that the schema has types of, and all edges.
    pub fn standard(schema: &Schema) -> Cooperation {
        let section = CooperkgcSection::default();
        let tasks = ExpertTask::ALL.into_iter().filter(|task| !task.labels(schema).is_empty());
        let experts = tasks.map(|task| Expert {
            name: task.expert().into(),
            task,
            schema: None,
            rounds: section.rounds(task),
            seed: 0,
        });
        let experts: Vec<Expert> = experts.collect();
        let edges = everybody(experts.len());
        Cooperation { experts, edges, simplify: true, background: true }
    }

    /// The team that a section describes.
    ///
    /// # Errors
    /// If a name is blank or given twice, a task has no types, an edge names nobody, or no expert
    /// answers for the plan's schema.
    pub(super) fn of(section: &CooperkgcSection, schema: &Schema) -> Result<Cooperation, ConfigError> {
        let mut team = Cooperation::standard(schema);
        (team.simplify, team.background) = (section.simplify, section.background);
        for (key, rounds) in [
            ("entity_rounds", section.entity_rounds),
            ("relation_rounds", section.relation_rounds),
            ("event_rounds", section.event_rounds),
        ] {
            few(&format!("team.cooperkgc.{key}"), rounds)?;
        }
        team.experts.iter_mut().for_each(|expert| expert.rounds = section.rounds(expert.task));
        if !section.experts.is_empty() {
            team.experts = experts(section, schema)?;
        }
        team.edges = match &section.edges {
            Some(edges) => edges_of(edges, &team.experts)?,
            None => everybody(team.experts.len()),
        };
        Ok(team)
    }

    /// Calls for one document, unreadable answers apart.
    pub fn calls(&self) -> usize {
        self.experts.iter().map(|expert| 1 + expert.rounds as usize).sum()
    }

    /// The expert of this name.
    pub fn expert(&self, name: &str) -> Option<&Expert> {
        self.experts.iter().find(|expert| expert.name == name)
    }
}

impl CooperkgcSection {
    fn rounds(&self, task: ExpertTask) -> u32 {
        match task {
            ExpertTask::Entities => self.entity_rounds,
            ExpertTask::Relations => self.relation_rounds,
            ExpertTask::Events => self.event_rounds,
        }
    }
}

fn everybody(count: usize) -> Vec<(usize, usize)> {
    (0..count).flat_map(|from| (0..count).filter(move |to| *to != from).map(move |to| (from, to))).collect()
}

fn few(key: &str, rounds: u32) -> Result<(), ConfigError> {
    match rounds <= MOST_ROUNDS {
        true => Ok(()),
        false => Err(ConfigError(format!("{key} is {rounds}; expected 0 to {MOST_ROUNDS}"))),
    }
}

fn experts(section: &CooperkgcSection, plan: &Schema) -> Result<Vec<Expert>, ConfigError> {
    let listed = &section.experts;
    if listed.len() > MOST_EXPERTS {
        let count = listed.len();
        return Err(ConfigError(format!(
            "team.cooperkgc.experts has {count} entries; expected at most {MOST_EXPERTS}"
        )));
    }
    let mut experts: Vec<Expert> = Vec::new();
    for (at, written) in listed.iter().enumerate() {
        let key = |name: &str| format!("team.cooperkgc.experts[{at}].{name}");
        let name = written.name.trim();
        if name.is_empty() || name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(ConfigError(format!(
                "{} is \"{}\"; expected 1 to {LONGEST_NAME} characters in one line, such as NER",
                key("name"),
                name.escape_debug()
            )));
        }
        if let Some(first) = experts.iter().position(|other| other.name.to_lowercase() == name.to_lowercase()) {
            return Err(ConfigError(format!(
                "{} is \"{name}\", and so is that of experts[{first}]; edges go by name: give each expert its own, such as \
                 \"{name}-2\"",
                key("name")
            )));
        }
        one_of(&key("task"), &written.task, &ExpertTask::ALL.map(ExpertTask::name))?;
        let task = ExpertTask::ALL.into_iter().find(|task| task.name() == written.task).expect("one of the names");
        let other = match &written.schema {
            Some(file) => Some(read_schema(file).map_err(|error| ConfigError(format!("{}: {error}", key("schema"))))?),
            None => None,
        };
        // The plan's schema by another file is the plan's schema.
        let schema = other.filter(|other| other != plan);
        if task.labels(schema.as_ref().unwrap_or(plan)).is_empty() {
            let whose = written.schema.as_ref().map_or("data.schema".into(), |file| file.display().to_string());
            let (key, task, known) = (key("task"), task.name(), known(schema.as_ref().unwrap_or(plan)));
            return Err(ConfigError(format!(
                "{key} is \"{task}\", but {whose} has no {task}; expected one of {known}: give its types, or drop the expert"
            )));
        }
        let rounds = written.rounds.unwrap_or(section.rounds(task));
        few(&key("rounds"), rounds)?;
        let twins = experts.iter().filter(|other| other.task == task && other.schema == schema).count();
        experts.push(Expert { name: name.into(), task, schema, rounds, seed: twins as u64 * APART });
    }
    if experts.iter().all(|expert| expert.schema.is_some()) {
        return Err(ConfigError(
            "team.cooperkgc.experts: all of them have a schema of their own, so nobody answers for data.schema; leave \
             schema out for at least one"
                .into(),
        ));
    }
    Ok(experts)
}

/// The tasks that a schema has types of.
fn known(schema: &Schema) -> String {
    let tasks = ExpertTask::ALL.into_iter().filter(|task| !task.labels(schema).is_empty());
    tasks.map(ExpertTask::name).collect::<Vec<_>>().join(", ")
}

fn edges_of(written: &[[String; 2]], experts: &[Expert]) -> Result<Vec<(usize, usize)>, ConfigError> {
    let names: Vec<&str> = experts.iter().map(|expert| expert.name.as_str()).collect();
    let mut edges = Vec::new();
    for (at, ends) in written.iter().enumerate() {
        let place = |name: &String| {
            names.iter().position(|known| *known == name.trim()).ok_or_else(|| {
                let near = nearest(name, names.iter().copied());
                let hint = near.map(|near| format!(" — did you mean {near}?")).unwrap_or_default();
                let names = names.join(", ");
                ConfigError(format!("team.cooperkgc.edges[{at}] names \"{name}\"; expected an expert: {names}{hint}"))
            })
        };
        let edge = (place(&ends[0])?, place(&ends[1])?);
        let shown = format!("team.cooperkgc.edges[{at}] is [\"{}\", \"{}\"]", ends[0], ends[1]);
        if edge.0 == edge.1 {
            return Err(ConfigError(format!(
                "{shown}; expected two experts: each sees its own last answer without an edge — drop it"
            )));
        }
        if let Some(first) = edges.iter().position(|known| *known == edge) {
            return Err(ConfigError(format!("{shown}, and so is edges[{first}]; name each edge once")));
        }
        edges.push(edge);
    }
    edges.sort_unstable();
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        toml::from_str("[[entities]]\nlabel = 'PER'\n[[events]]\nlabel = 'attack'\n").unwrap()
    }

    fn team(section: &str) -> Result<Cooperation, String> {
        let section: CooperkgcSection = toml::from_str(section).unwrap();
        Cooperation::of(&section, &schema()).map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_section_each_task_of_the_schema_has_one_expert_and_all_hear_each_other() {
        let team = team("").unwrap();
        let experts: Vec<(&str, u32)> = team.experts.iter().map(|e| (e.name.as_str(), e.rounds)).collect();
        assert_eq!(experts, [("NER", 2), ("EE", 3)], "no relation types, no expert in relations");
        assert_eq!(team.edges, [(0, 1), (1, 0)]);
        assert_eq!((team.calls(), team.simplify, team.background), (7, true, true));
        assert_eq!(team, Cooperation::standard(&schema()));
    }

    #[test]
    fn an_empty_list_of_edges_is_a_team_in_which_nobody_hears_anybody() {
        assert!(team("edges = []").unwrap().edges.is_empty());
        assert_eq!(team("edges = [['EE', 'NER']]\nentity_rounds = 0").unwrap().edges, [(1, 0)]);
    }

    #[test]
    fn experts_that_are_asked_the_same_draw_apart() {
        let one = |name: &str, task: &str| format!("[[experts]]\nname = '{name}'\ntask = '{task}'\n");
        let team = team(&(one("a", "entities") + &one("b", "events") + &one("c", "entities"))).unwrap();
        assert_eq!(team.experts.iter().map(|expert| expert.seed).collect::<Vec<_>>(), [0, 0, 1000]);
    }

    #[test]
    fn what_cannot_work_is_refused_by_its_key_with_the_way_out() {
        let home = tempfile::tempdir().unwrap();
        let other = home.path().join("other.toml");
        std::fs::write(&other, "[[entities]]\nlabel = 'GPE'\n").unwrap();
        let file = other.display();
        let only = format!("[[experts]]\nname = 'a'\ntask = 'entities'\nschema = '{file}'\n");
        let two = "[[experts]]\nname = 'NER'\ntask = 'entities'\n[[experts]]\nname = 'ner'\ntask = 'events'\n";
        let events = only.replace("entities", "events");
        let none = format!("but {file} has no events; expected one of entities");
        for (section, says) in [
            ("entity_rounds = 21", "team.cooperkgc.entity_rounds is 21; expected 0 to 20"),
            ("edges = [['NER', 'EF']]", "edges[0] names \"EF\"; expected an expert: NER, EE"),
            ("edges = [['NERR', 'EE']]", "— did you mean NER?"),
            ("edges = [['EE', 'EE']]", "edges[0] is [\"EE\", \"EE\"]; expected two experts"),
            ("edges = [['EE', 'NER'], ['EE', 'NER']]", "edges[1] is [\"EE\", \"NER\"], and so is edges[0]"),
            (two, "experts[1].name is \"ner\", and so is that of experts[0]"),
            ("[[experts]]\nname = ' '\ntask = 'entities'", "experts[0].name is \"\"; expected 1 to 40 characters"),
            ("[[experts]]\nname = 'a'\ntask = 'entity'", "experts[0].task is \"entity\"; expected entities, relations"),
            (
                "[[experts]]\nname = 'a'\ntask = 'relations'",
                "experts[0].task is \"relations\", but data.schema has no relations; expected one of entities, events",
            ),
            (
                "[[experts]]\nname = 'a'\ntask = 'events'\nrounds = 99",
                "team.cooperkgc.experts[0].rounds is 99; expected 0 to 20",
            ),
            ("[[experts]]\nname = 'a'\ntask = 'events'\nschema = 'nowhere'", "experts[0].schema: nowhere: "),
            (only.as_str(), "nobody answers for data.schema; leave schema out for at least one"),
            (events.as_str(), none.as_str()),
        ] {
            let said = team(section).unwrap_err();
            assert!(said.contains(says), "expected \"{says}\" in: {said}");
        }
        let crowd: String = (0..27).map(|at| format!("[[experts]]\nname = 'e{at}'\ntask = 'entities'\n")).collect();
        assert!(team(&crowd).unwrap_err().contains("experts has 27 entries; expected at most 26"));
    }

    #[test]
    fn the_plans_schema_by_another_file_is_the_plans_schema() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("same.json");
        std::fs::write(&file, r#"{"entities":[{"label":"PER"}],"events":[{"label":"attack"}]}"#).unwrap();
        let section = format!("[[experts]]\nname = 'a'\ntask = 'entities'\nschema = '{}'\n", file.display());
        assert_eq!(team(&section).unwrap().experts[0].schema, None);
    }
}
