//! A schema from its own file, TOML or JSON, checked.

use crate::ie::Schema;
use std::fmt;
use std::path::Path;

/// Why a file is not a schema: the file, then what is wrong in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFileError(String);

impl fmt::Display for SchemaFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaFileError {}

/// Reads and checks a schema. `.toml` and `.json` say what they are; any other file is JSON if
/// it opens with a brace.
///
/// # Errors
/// `FILE: what`, if it cannot be read, is no schema, or asks for what cannot be.
pub fn read_schema(path: &Path) -> Result<Schema, SchemaFileError> {
    let named = |what: String| SchemaFileError(format!("{}: {}", path.display(), what.trim_end()));
    let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
    let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
    let json = match extension.as_deref() {
        Some("json") => true,
        Some("toml") => false,
        _ => text.trim_start_matches('\u{feff}').trim_start().starts_with('{'),
    };
    parse_schema(&text, json).map_err(named)
}

fn parse_schema(text: &str, json: bool) -> Result<Schema, String> {
    let text = text.trim_start_matches('\u{feff}');
    let schema: Schema = if json {
        serde_json::from_str(text).map_err(|error| error.to_string())?
    } else {
        toml::from_str(text).map_err(|error| error.to_string())?
    };
    schema.check().map_err(|error| error.to_string())?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "[[entities]]\nlabel = \"PER\"\naliases = [\"person\"]\n";

    #[test]
    fn toml_and_json_say_the_same() {
        let json = r#"{"entities":[{"label":"PER","aliases":["person"]}]}"#;
        assert_eq!(parse_schema(TOML, false).unwrap(), parse_schema(json, true).unwrap());
    }

    #[test]
    fn a_file_without_a_telling_name_is_known_by_its_first_brace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("schema");
        for written in [TOML, "\u{feff} {\"entities\":[{\"label\":\"PER\",\"aliases\":[\"person\"]}]}"] {
            std::fs::write(&path, written).unwrap();
            assert_eq!(read_schema(&path).unwrap().entities[0].label, "PER");
        }
    }

    #[test]
    fn an_error_names_the_file_and_the_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.json");
        std::fs::write(&path, r#"{"entities":[{"label":"PER","colour":1}]}"#).unwrap();
        let said = read_schema(&path).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{}: unknown field `colour`", path.display())), "{said}");
        std::fs::write(&path, "{}").unwrap();
        let said = read_schema(&path).unwrap_err().to_string();
        assert!(said.ends_with("s.json: the schema asks for nothing; give at least one [[entities]] entry"), "{said}");
        assert!(read_schema(&folder.path().join("none.toml")).is_err());
    }
}
