//! The prompt packs: one directory of templates for each language, and the words that stand around
//! texts and options.

use crate::ie::Schema;
use minijinja::Environment;

/// A language that prompts are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// English.
    English,
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
    /// The last option of every debate.
    pub none_is_right: &'static str,
    /// The option that several readings stand side by side.
    pub all_are_right: &'static str,
    /// A stand-in for an example name; `{}` is its label.
    pub name_of: &'static str,
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
                    "again" "debate" "entities" "reading" "relation_agent" "relations" "summarizer" "type_agent"
                ),)*
            }
        }
    };
}

packs! { English "en" }

impl Language {
    /// All.
    pub const ALL: [Language; 1] = [Language::English];

    /// As in configs: `en`.
    pub fn name(self) -> &'static str {
        match self {
            Language::English => "en",
        }
    }

    /// The language of this name.
    pub fn named(name: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|language| language.name() == name)
    }

    /// The language that a schema is written in.
    pub fn of(_: &Schema) -> Language {
        Language::English
    }

    fn words(self) -> &'static Words {
        match self {
            Language::English => &ENGLISH,
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
    none_is_right: "none of these is right",
    all_are_right: "all of these",
    name_of: "name of a {}",
};
