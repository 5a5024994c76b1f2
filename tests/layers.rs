//! The house rules that a compiler does not check: who may import whom, where features may be
//! asked for, how a file opens and how long it may be. Reads the sources as tokens, so that
//! comments and strings say nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A module, what it may import from us, and which outside crates it may name.
struct Layer {
    module: &'static str,
    ours: &'static [&'static str],
    outside: &'static [&'static str],
}

/// Free for every module.
const EVERYWHERE: [&str; 2] = ["serde", "thiserror"];
const FILES: [&str; 6] = ["serde_json", "zstd", "sha2", "tempfile", "rusqlite", "polars"];

/// Who may import whom; `*` is everything. A module that is not in this table may not exist.
const LAYERS: [Layer; 14] = [
    Layer { module: "ie", ours: &[], outside: &[] },
    Layer { module: "config", ours: &["ie"], outside: &["toml", "serde_json", "strsim", "schemars"] },
    Layer { module: "store", ours: &["ie"], outside: &FILES },
    Layer {
        module: "template",
        ours: &["ie", "config"],
        // minijinja_contrib is minijinja's own supplement: the Python methods of chat templates.
        outside: &["serde_json", "minijinja", "minijinja_contrib", "unicode_normalization"],
    },
    Layer { module: "trace", ours: &["ie"], outside: &[] },
    Layer {
        module: "embed",
        ours: &["ie", "config", "store"],
        outside: &["gemm", "pulp", "tokenizers", "safetensors", "half", "rayon", "serde_json", "unicode_normalization"],
    },
    Layer { module: "corpus", ours: &["ie", "config", "store"], outside: &["rayon", "polars", "serde_json"] },
    Layer {
        module: "team",
        ours: &["ie", "config", "template", "trace", "store", "embed"],
        outside: &["ureq", "serde_json", "rayon"],
    },
    Layer { module: "filter", ours: &["ie", "config", "trace", "store"], outside: &["rayon", "unicode_normalization"] },
    Layer {
        module: "student",
        ours: &["ie", "template", "config"],
        outside: &[
            "gemm",
            "pulp",
            "burn",
            // Of the feature `cuda`, in device.rs: where the toolkit is looked for.
            "cubecl_cuda",
            "tokenizers",
            "safetensors",
            "fancy_regex",
            "memmap2",
            "half",
            "rand",
            "rand_chacha",
            "rayon",
            "serde_json",
            "sha2",
        ],
    },
    Layer {
        module: "train",
        ours: &["student", "template", "eval", "config", "ie", "store"],
        outside: &["burn", "rayon", "rand", "rand_chacha", "serde_json"],
    },
    Layer {
        module: "eval",
        ours: &["ie", "config"],
        outside: &["rayon", "rand", "rand_chacha", "serde_json", "unicode_normalization"],
    },
    Layer { module: "report", ours: &["ie", "eval", "trace", "store"], outside: &["polars", "serde_json"] },
    Layer { module: "cli", ours: &["*"], outside: &["*"] },
];

const LINES_PER_FILE: usize = 600;
const LINES_OF_MAIN: usize = 40;

// ───────────────────────────────────── reading ─────────────────────────────────────

/// A word, a sign, or a literal as `"` with its content behind, with its line.
#[derive(Clone, Debug, PartialEq)]
struct Token {
    line: usize,
    text: String,
}

/// A source file as tokens, with what the rules need to know about it.
struct Source {
    /// From the repository's root.
    path: String,
    text: String,
    tokens: Vec<Token>,
    /// Per token: whether it stands in an item under `#[cfg(test)]`.
    in_test: Vec<bool>,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Splits Rust into words and signs; comments vanish.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut line, mut at) = (Vec::new(), 1, 0);
    let peek = |at: usize| chars.get(at).copied().unwrap_or('\0');
    while at < chars.len() {
        let start = at;
        let token = match (chars[at], peek(at + 1)) {
            ('/', '/') => {
                at += chars[at..].iter().take_while(|&&c| c != '\n').count();
                None
            }
            ('/', '*') => {
                at = after_block_comment(&chars, at);
                None
            }
            (c, _) if c.is_whitespace() => {
                at += 1;
                None
            }
            ('"', _) => {
                at = after_string(&chars, at);
                Some(chars[start..(at - 1).min(chars.len())].iter().collect())
            }
            ('\'', next) if next == '\\' || peek(at + 2) == '\'' => {
                at += if next == '\\' { 3 } else { 2 };
                at += chars[at.min(chars.len())..].iter().take_while(|&&c| c != '\'').count() + 1;
                Some("\"".to_string())
            }
            (c, _) if is_word(c) => {
                let word: String = chars[at..].iter().take_while(|&&c| is_word(c)).collect();
                at += word.chars().count();
                let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
                match (word.as_str(), peek(at + hashes)) {
                    ("r" | "br" | "cr", '"') => {
                        at = after_raw_string(&chars, at + hashes + 1, hashes);
                        Some("\"".to_string())
                    }
                    ("b" | "c", '"') if hashes == 0 => {
                        at = after_string(&chars, at);
                        Some("\"".to_string())
                    }
                    ("r", _) if hashes == 1 => {
                        at += 1;
                        None
                    }
                    _ => Some(word),
                }
            }
            (':', ':') => {
                at += 2;
                Some("::".to_string())
            }
            (c, _) => {
                at += 1;
                Some(c.to_string())
            }
        };
        found.extend(token.map(|text| Token { line, text }));
        line += chars[start..at.min(chars.len())].iter().filter(|&&c| c == '\n').count();
    }
    found
}

fn after_block_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn after_string(chars: &[char], mut at: usize) -> usize {
    at += 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn after_raw_string(chars: &[char], mut at: usize, hashes: usize) -> usize {
    let closes =
        |at: usize| chars[at] == '"' && chars[at + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes;
    while at < chars.len() && !closes(at) {
        at += 1;
    }
    at + 1 + hashes
}

/// Whether the words from `at` on are these.
fn stands(tokens: &[Token], at: usize, words: &[&str]) -> bool {
    tokens.len() >= at + words.len() && words.iter().zip(&tokens[at..]).all(|(word, token)| token.text == *word)
}

/// One past the item that starts at `at`: behind its `;` or its closing brace.
fn after_item(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth -= 1;
                if depth == 0 && tokens[at].text == "}" {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Marks what stands under `#[cfg(test)]`, or in a whole file of tests.
fn test_marks(tokens: &[Token]) -> Vec<bool> {
    let mut marks = vec![false; tokens.len()];
    let mut at = 0;
    while at < tokens.len() {
        let whole = stands(tokens, at, &["#", "!", "[", "cfg", "(", "test", ")", "]"]);
        let item = stands(tokens, at, &["#", "[", "cfg", "(", "test", ")", "]"])
            || stands(tokens, at, &["#", "[", "cfg", "(", "all", "(", "test", ","]);
        let end = match (whole, item) {
            (true, _) => tokens.len(),
            (_, true) => after_item(tokens, at),
            _ => at,
        };
        marks[at..end].fill(true);
        at = end.max(at + 1);
    }
    marks
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        let tokens = tokens(text);
        let in_test = test_marks(&tokens);
        Source { path: path.into(), text: text.into(), tokens, in_test }
    }

    /// The module's path: `src/ie/span.rs` is `[ie, span]`, `src/ie/mod.rs` is `[ie]`.
    fn module(&self) -> Vec<&str> {
        let inside = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        inside.split('/').filter(|part| !["mod", "lib", "main"].contains(part)).collect()
    }

    fn layer(&self) -> Option<&'static Layer> {
        LAYERS.iter().find(|layer| Some(&layer.module) == self.module().first())
    }

    /// The files that this one declares as `#[cfg(test)] mod name;`, with or without a `#[path]`.
    fn test_files(&self) -> Vec<String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let base = match file {
            "mod.rs" | "lib.rs" | "main.rs" => folder,
            _ => self.path.trim_end_matches(".rs"),
        };
        let declared = (0..self.tokens.len()).filter(|&at| {
            self.in_test[at] && stands(&self.tokens, at, &["mod"]) && stands(&self.tokens, at + 2, &[";"])
        });
        let paths = declared.flat_map(|at| {
            let named = at >= 6 && stands(&self.tokens, at - 6, &["#", "[", "path", "="]);
            let name = &self.tokens[at + 1].text;
            match named {
                true => vec![format!("{folder}/{}", self.tokens[at - 2].text.trim_start_matches('"'))],
                false => vec![format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")],
            }
        });
        paths.collect()
    }

    /// Our top-level modules that the file names, as `(token, module)`: `crate::x`, groups behind
    /// `crate::`, and `super::` chains that reach the root.
    fn ours(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for at in 0..self.tokens.len() {
            match self.tokens[at].text.as_str() {
                "crate" if stands(&self.tokens, at + 1, &["::"]) => found.extend(heads(&self.tokens, at + 2)),
                "super" if at == 0 || !stands(&self.tokens, at - 1, &["::"]) => {
                    let steps = (0..).take_while(|step| stands(&self.tokens, at + 2 * step, &["super", "::"])).count();
                    if steps > 0 && steps >= self.module().len() + self.inline_modules(at) {
                        found.extend(heads(&self.tokens, at + 2 * steps));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// How many `mod name { … }` of this file are open at the token.
    fn inline_modules(&self, at: usize) -> usize {
        let opens = (0..at).filter(|&at| stands(&self.tokens, at, &["mod"]) && stands(&self.tokens, at + 2, &["{"]));
        opens.filter(|&open| after_item(&self.tokens, open) > at).count()
    }

    /// Outside crates that the file names in a path or a `use`, as `(token, crate)`.
    fn outside(&self, crates: &BTreeSet<String>) -> Vec<(usize, String)> {
        let word = |at: usize| self.tokens.get(at).map_or("", |token| token.text.as_str());
        let declared = |name: &str| (0..self.tokens.len()).any(|at| stands(&self.tokens, at, &["mod", name]));
        (0..self.tokens.len())
            .filter(|&at| crates.contains(word(at)) && !declared(word(at)))
            .filter(|&at| {
                let inner =
                    at > 0 && (word(at - 1) == "." || (word(at - 1) == "::" && at > 1 && is_path_part(word(at - 2))));
                let path = word(at + 1) == "::" && word(at + 2) != "<";
                let used = at > 0 && ["use", "crate"].contains(&word(at - 1)) && [";", "as"].contains(&word(at + 1));
                !inner && (path || used)
            })
            .map(|at| (at, word(at).to_string()))
            .collect()
    }
}

fn is_path_part(word: &str) -> bool {
    word == ">" || word.chars().all(is_word) && !["use", "in", "as", "return", "mut", "dyn", "impl"].contains(&word)
}

/// The first names behind a `::`: one, or each of a `{…}` group.
fn heads(tokens: &[Token], at: usize) -> Vec<(usize, String)> {
    if !stands(tokens, at, &["{"]) {
        return tokens.get(at).map(|token| (at, token.text.clone())).into_iter().collect();
    }
    let (mut found, mut depth) = (Vec::new(), 0);
    for (here, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        let first = depth == 1 && here > at && ["{", ","].contains(&tokens[here - 1].text.as_str());
        if first && (token.text == "*" || token.text.chars().all(is_word)) {
            found.push((here, token.text.clone()));
        }
    }
    found
}

// ────────────────────────────────────── rules ──────────────────────────────────────

/// Every rule over every file; one line per breach: file, line, rule, way out.
fn breaches(sources: &[Source], crates: &BTreeSet<String>) -> Vec<String> {
    let test_files: BTreeSet<String> = sources.iter().flat_map(Source::test_files).collect();
    let modules: BTreeSet<&str> = LAYERS.iter().map(|layer| layer.module).collect();
    let mut said = Vec::new();
    for source in sources {
        shape(source, &mut said);
        words(source, test_files.contains(&source.path), &mut said);
        if source.module().is_empty() {
            continue;
        }
        match source.layer() {
            Some(layer) => imports(source, layer, test_files.contains(&source.path), &modules, crates, &mut said),
            None => said.push(format!(
                "{}:1: module \"{}\" is not in the table of tests/layers.rs",
                source.path,
                source.module()[0]
            )),
        }
    }
    said
}

/// How a file opens and how long it is.
fn shape(source: &Source, said: &mut Vec<String>) {
    let lines = source.text.lines().count();
    let most = if source.path == "src/main.rs" { LINES_OF_MAIN } else { LINES_PER_FILE };
    if lines > most {
        said.push(format!("{}:{lines}: {lines} lines; at most {most} — split the file", source.path));
    }
    if !source.text.starts_with("//!") {
        said.push(format!("{}:1: the file opens without `//!`; say what it is and where it stands", source.path));
    }
}

/// Words that have one place or none.
fn words(source: &Source, test_file: bool, said: &mut Vec<String>) {
    for (at, token) in source.tokens.iter().enumerate() {
        let mut say = |rule: &str| said.push(format!("{}:{}: {rule}", source.path, token.line));
        if stands(&source.tokens, at, &[".", "unwrap", "(", ")"]) && !source.in_test[at] && !test_file {
            say("unwrap() outside #[cfg(test)] — return the error, or expect(\"the proof\")");
        }
        let literal = source.tokens.get(at + 2).is_some_and(|token| token.text.starts_with('"'));
        if stands(&source.tokens, at, &["feature", "="]) && literal && source.path != "src/student/device.rs" {
            say("a cargo feature is asked for; only src/student/device.rs may");
        }
        if stands(&source.tokens, at, &["crate", "as"]) {
            say("the crate is renamed, which hides who imports whom");
        }
        if stands(&source.tokens, at, &["B", ":", "Backend"]) {
            say("`B: Backend`; in burn 0.22 the backend lives in the Device value");
        }
    }
    for (at, _) in source.text.lines().enumerate().filter(|(_, line)| line.contains("B: Backend")) {
        said.push(format!("{}:{}: the letters `B: Backend` stand in a comment or string", source.path, at + 1));
    }
}

/// Both columns of the table. Unit tests keep to the first column; the second is for the product.
fn imports(
    source: &Source,
    layer: &Layer,
    test_file: bool,
    modules: &BTreeSet<&str>,
    crates: &BTreeSet<String>,
    said: &mut Vec<String>,
) {
    let free = |list: &[&str], name: &str| list.contains(&"*") || list.contains(&name);
    for (at, name) in source.ours() {
        let known = name == "*" || modules.contains(name.as_str());
        if known && name != layer.module && !free(layer.ours, &name) {
            let line = source.tokens[at].line;
            let may = if layer.ours.is_empty() { "nothing of ours".into() } else { layer.ours.join(", ") };
            said.push(format!("{}:{line}: {} imports {name}; it may import {may}", source.path, layer.module));
        }
    }
    for (at, name) in source.outside(crates) {
        if !source.in_test[at] && !test_file && !EVERYWHERE.contains(&name.as_str()) && !free(layer.outside, &name) {
            let line = source.tokens[at].line;
            let may: Vec<&str> = EVERYWHERE.iter().chain(layer.outside).copied().collect();
            said.push(format!(
                "{}:{line}: {} names the crate {name}; it may name {}",
                source.path,
                layer.module,
                may.join(", ")
            ));
        }
    }
}

// ────────────────────────────────────── tests ──────────────────────────────────────

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every `.rs` file below `src`, in name order.
fn sources() -> Vec<Source> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false => found.extend(path.extension().is_some_and(|end| end == "rs").then_some(path)),
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join("src"), &mut found);
    found.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
    found.iter().map(|path| Source::new(&name(path), &std::fs::read_to_string(path).unwrap())).collect()
}

/// The names of all dependencies, as code writes them.
fn crates() -> BTreeSet<String> {
    let manifest: toml::Table = toml::from_str(&std::fs::read_to_string(root().join("Cargo.toml")).unwrap()).unwrap();
    let listed = ["dependencies", "dev-dependencies"].into_iter().filter_map(|list| manifest.get(list)?.as_table());
    listed.flat_map(|list| list.keys()).map(|name| name.replace('-', "_")).collect()
}

/// What the rules say about one invented file.
fn said_of(path: &str, text: &str) -> Vec<String> {
    let crates = ["burn", "clap", "anyhow", "serde", "serde_json", "rand"].map(String::from).into();
    breaches(&[Source::new(path, &format!("//! A file.\n{text}"))], &crates)
}

#[test]
fn the_house_keeps_its_rules() {
    let sources = sources();
    assert!(sources.len() >= 20, "only {} files were read", sources.len());
    for layer in &LAYERS {
        let there = sources.iter().any(|source| source.module().first() == Some(&layer.module));
        assert!(there, "src/{} does not exist, but the table has it", layer.module);
    }
    let crates = crates();
    for layer in &LAYERS {
        for name in layer.outside.iter().filter(|name| **name != "*") {
            assert!(
                crates.contains(*name),
                "the table lets {} name {name}, which Cargo.toml does not have",
                layer.module
            );
        }
    }
    let said = breaches(&sources, &crates);
    assert!(said.is_empty(), "{} breaches:\n{}", said.len(), said.join("\n"));
}

#[test]
fn an_import_against_the_table_is_named_with_file_line_and_rule() {
    assert_eq!(
        said_of("src/eval/score.rs", "use crate::ie::Span;\nuse crate::student::Student;\n"),
        ["src/eval/score.rs:3: eval imports student; it may import ie, config"]
    );
    assert_eq!(
        said_of("src/team/mod.rs", "use burn::tensor::Tensor;\n"),
        ["src/team/mod.rs:2: team names the crate burn; it may name serde, thiserror, ureq, serde_json, rayon"]
    );
    assert_eq!(
        said_of("src/helpers/mod.rs", ""),
        ["src/helpers/mod.rs:1: module \"helpers\" is not in the table of tests/layers.rs"]
    );
}

#[test]
fn no_spelling_of_an_import_slips_through() {
    for text in [
        "use crate::{\n    ie::{Document, Span},\n    team::Team,\n};",
        "pub use crate::team;",
        "fn f(x: &crate::team::Team) {}",
        "use super::team::Team;",
        "mod inner { use super::super::team::Team; }",
        "#[cfg(test)]\nmod tests { use crate::team::Team; }",
        "fn f() { let s = \"\\\"\"; crate :: team :: run(s, 'a', '\\'', r#\"\"\"#) }",
        "use crate::r#team::Team;",
    ] {
        let said = said_of("src/eval/mod.rs", text);
        assert_eq!(said.len(), 1, "{text}: {said:?}");
        assert!(said[0].contains("eval imports team"), "{text}: {said:?}");
    }
    assert!(said_of("src/eval/mod.rs", "use crate as us;")[0].contains("the crate is renamed"));
    assert!(said_of("src/eval/mod.rs", "use crate::*;")[0].contains("eval imports *"));
    let paths = "use {burn::nn, serde::Serialize};|fn f() -> burn::Tensor {}|use ::burn::nn;";
    for text in paths.split('|').chain(["use burn;", "use burn as b;", "extern crate burn;"]) {
        let said = said_of("src/eval/mod.rs", text);
        assert!(said.len() == 1 && said[0].contains("eval names the crate burn"), "{text}: {said:?}");
    }
}

#[test]
fn comments_strings_and_own_modules_are_no_imports() {
    for text in [
        "// use crate::team::Team;\n/* crate::team /* burn:: */ x.unwrap() */\n/// crate::team::Team, x.unwrap()",
        "const S: &str = \"use crate::team; burn::nn\"; const R: &str = r#\"crate::team \"x\" \"#;",
        "use crate::eval::score; use super::eval::align; use crate::ie; pub(crate) struct X<'a>(&'a str);",
        "mod rand; mod inner { use super::rand::Draw; } fn f() { self::rand::draw(); inner::burn::x() }",
        "#[cfg(test)]\nmod tests { use burn::nn; fn f() { x.unwrap() } }",
    ] {
        assert_eq!(said_of("src/eval/mod.rs", text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(said_of("src/cli/run.rs", "use crate::{ie, team, student}; use anyhow::Context;"), Vec::<String>::new());
}

#[test]
fn words_with_one_place_or_none_are_found() {
    let one = |path: &str, text: &str, rule: &str| {
        let said = said_of(path, text);
        assert!(said.iter().any(|line| line.contains(rule)), "{text}: {said:?}");
    };
    one("src/ie/span.rs", "fn f() { x.unwrap() }", "src/ie/span.rs:2: unwrap() outside");
    one("src/ie/span.rs", "#[cfg(test)] use x; fn f() { x.unwrap() }", "unwrap() outside");
    one("src/ie/span.rs", "#[cfg(feature = \"cuda\")] fn f() {}", "only src/student/device.rs");
    one("src/ie/span.rs", "fn f() { if cfg!(feature = \"cuda\") {} }", "only src/student/device.rs");
    one("src/train/fit.rs", "fn f<B: Backend>() {}", "the backend lives in the Device value");
    one("src/train/fit.rs", "// B: Backend", "stand in a comment");
    one("src/train/fit.rs", &"\n".repeat(600), "601 lines; at most 600");
    one("src/main.rs", &"\n".repeat(40), "41 lines; at most 40");
    assert_eq!(said_of("src/student/device.rs", "#[cfg(feature = \"cuda\")] fn f() {}"), Vec::<String>::new());
    let bare = breaches(&[Source::new("src/ie/x.rs", "use serde::Serialize;")], &crates());
    assert_eq!(bare, ["src/ie/x.rs:1: the file opens without `//!`; say what it is and where it stands"]);
}

#[test]
fn a_file_declared_under_cfg_test_is_a_test() {
    for (attribute, path) in
        [("", "src/eval/score/tests.rs"), ("#[path = \"score_tests.rs\"]", "src/eval/score_tests.rs")]
    {
        let parent = Source::new("src/eval/score.rs", &format!("//! A file.\n#[cfg(test)]\n{attribute}\nmod tests;\n"));
        let child = Source::new(path, "//! Tests.\nuse insta::assert_snapshot;\nfn f() { x.unwrap() }\n");
        assert_eq!(breaches(&[parent, child], &crates()), Vec::<String>::new());
    }
    let alone = Source::new("src/eval/score_tests.rs", "//! Tests.\nfn f() { x.unwrap() }\n");
    assert_eq!(breaches(&[alone], &crates()).len(), 1);
}

#[test]
fn every_test_file_opens_with_its_purpose_and_stays_short() {
    for entry in std::fs::read_dir(root().join("tests")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with("//!"), "{}:1: the file opens without `//!`", path.display());
            assert!(text.lines().count() <= LINES_PER_FILE, "{}: above {LINES_PER_FILE} lines", path.display());
        }
    }
}
