//! The prompt packs: one directory of templates for each language, and the words that stand around
//! texts and options.

use crate::ie::Schema;
use minijinja::Environment;

/// A language that prompts are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// English.
    English,
    /// Chinese, in simplified characters.
    Chinese,
    /// Korean.
    Korean,
}

/// What stands around texts and options.
#[derive(Debug)]
pub(super) struct Words {
    /// Before the text, with its space.
    pub text: &'static str,
    /// Above the options of a debate.
    pub options: &'static str,
    /// Above what was said.
    pub said: &'static str,
    /// Before a speaker's own confidence.
    pub confidence: &'static str,
    /// Any entity type, in a signature.
    pub any: &'static str,
    /// Between the types of a signature, with its spaces.
    pub or: &'static str,
    /// What a debate about a type is about.
    pub a_name: &'static str,
    /// What a debate about a relation is about.
    pub a_relation: &'static str,
    /// What a debate about an event is about.
    pub an_event: &'static str,
    /// The last option of every debate.
    pub none_is_right: &'static str,
    /// The option that several readings stand side by side.
    pub all_are_right: &'static str,
    /// A stand-in for an example name; `{}` is its label.
    pub name_of: &'static str,
    /// A stand-in for the word that names an event; `{}` is its label.
    pub trigger_of: &'static str,
}

/// The templates and words of one language.
pub(super) struct Pack {
    templates: Environment<'static>,
    pub words: &'static Words,
}

/// Names of templates and where they stand in each language's directory.
macro_rules! pack {
    ($language:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../packs/", $language, "/", $name, ".j2")))),*]
    };
}

/// The same list for each language.
macro_rules! packs {
    ($($variant:ident $language:literal)*) => {
        fn templates(language: Language) -> &'static [(&'static str, &'static str)] {
            match language {
                $(Language::$variant => pack!($language:
                    "again" "cooper_entities" "cooper_events" "cooper_opening" "cooper_relations" "cooper_replicas" "debate"
                    "entities" "event_agent" "feedback" "happening" "reading" "relation_agent" "relations" "statement"
                    "summarizer" "trigger" "type_agent" "wanted"
                ),)*
            }
        }
    };
}

packs! { English "en" Chinese "zh" Korean "ko" }

impl Language {
    /// All.
    pub const ALL: [Language; 3] = [Language::English, Language::Chinese, Language::Korean];

    /// As in configs: `en`, `zh`, `ko`.
    pub fn name(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::Chinese => "zh",
            Language::Korean => "ko",
        }
    }

    /// The language of this name.
    pub fn named(name: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|language| language.name() == name)
    }

    /// The language that a schema is written in, by the letters of its definitions and, where it
    /// has none, of its labels: Korean if a fifth of them are Hangul, Chinese if a fifth are Han
    /// characters, English otherwise.
    pub fn of(schema: &Schema) -> Language {
        let definitions = schema.entities.iter().map(|kind| &kind.definition);
        let definitions = definitions.chain(schema.relations.iter().map(|kind| &kind.definition));
        let roles = schema.events.iter().flat_map(|kind| kind.roles.iter().map(|role| &role.definition));
        let definitions = definitions.chain(schema.events.iter().map(|kind| &kind.definition)).chain(roles);
        let labels = schema.entities.iter().map(|kind| &kind.label);
        let labels = labels.chain(schema.relations.iter().map(|kind| &kind.label));
        let labels = labels.chain(schema.events.iter().map(|kind| &kind.label));
        match Letters::of(definitions) {
            Letters { all: 0, .. } => Letters::of(labels).language(),
            letters => letters.language(),
        }
    }

    fn words(self) -> &'static Words {
        match self {
            Language::English => &ENGLISH,
            Language::Chinese => &CHINESE,
            Language::Korean => &KOREAN,
        }
    }
}

/// Letters by script.
#[derive(Default)]
struct Letters {
    all: usize,
    hangul: usize,
    han: usize,
}

impl Letters {
    fn of<'a>(texts: impl Iterator<Item = &'a String>) -> Letters {
        let mut letters = Letters::default();
        for letter in texts.flat_map(|text| text.chars()).filter(|letter| letter.is_alphabetic()) {
            letters.all += 1;
            match letter {
                '\u{1100}'..='\u{11FF}' | '\u{3130}'..='\u{318F}' | '\u{AC00}'..='\u{D7A3}' => letters.hangul += 1,
                '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{20000}'..='\u{2FA1F}' => letters.han += 1,
                _ => {}
            }
        }
        letters
    }

    fn language(&self) -> Language {
        match (self.hangul * 5 >= self.all.max(1), self.han * 5 >= self.all.max(1)) {
            (true, _) => Language::Korean,
            (_, true) => Language::Chinese,
            _ => Language::English,
        }
    }
}

impl Pack {
    pub fn of(language: Language) -> Pack {
        let mut pack = Environment::new();
        for (name, source) in templates(language) {
            pack.add_template(name, source).expect("the pack is compiled in, and a test renders every template");
        }
        Pack { templates: pack, words: language.words() }
    }

    /// Fills a template.
    pub fn render(&self, name: &str, values: minijinja::Value) -> String {
        let template = self.templates.get_template(name).expect("the pack is compiled in");
        template.render(values).expect("the pack is compiled in, and a test renders every template").trim().to_string()
    }
}

const ENGLISH: Words = Words {
    text: "Text: ",
    options: "Options:",
    said: "Said so far:",
    confidence: "confidence",
    any: "any entity",
    or: " or ",
    a_name: "a name in a text",
    a_relation: "the relation between two names in a text",
    an_event: "an event in a text",
    none_is_right: "none of these is right",
    all_are_right: "all of these",
    name_of: "name of a {}",
    trigger_of: "word for {}",
};

const CHINESE: Words = Words {
    text: "文本：",
    options: "选项：",
    said: "已有发言：",
    confidence: "置信度",
    any: "任意实体",
    or: "或",
    a_name: "文本中的一个名称",
    a_relation: "文本中两个名称之间的关系",
    an_event: "文本中的一个事件",
    none_is_right: "以上都不对",
    all_are_right: "以上都成立",
    name_of: "某个{}的名称",
    trigger_of: "表示{}的词",
};

const KOREAN: Words = Words {
    text: "텍스트: ",
    options: "선택지:",
    said: "지금까지의 발언:",
    confidence: "신뢰도",
    any: "모든 개체",
    or: " 또는 ",
    a_name: "텍스트에 나온 한 이름",
    a_relation: "텍스트에 나온 두 이름 사이의 관계",
    an_event: "텍스트에 나온 한 사건",
    none_is_right: "위의 어느 것도 맞지 않음",
    all_are_right: "위의 것이 모두 맞음",
    name_of: "{} 이름",
    trigger_of: "{}을(를) 나타내는 낱말",
};
