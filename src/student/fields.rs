//! Typed access to the fields of a JSON object that somebody else wrote; an error names the field,
//! what was expected and what was found.

use super::error::{Result, StudentError};
use serde_json::Value;
use std::path::Path;

/// One JSON object and the file it stands in.
pub(crate) struct Fields<'a> {
    pub json: &'a Value,
    pub path: &'a Path,
}

impl<'a> Fields<'a> {
    /// The field, where it is there and not null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    /// An error about this file.
    pub fn fail(&self, cause: impl std::fmt::Display) -> StudentError {
        StudentError::file(self.path, cause)
    }

    /// An error about one field.
    pub fn wrong(&self, key: &str, expected: &str) -> StudentError {
        match self.get(key) {
            Some(found) => self.fail(format!("\"{key}\": expected {expected}, found {}", shown(found))),
            None => self.fail(format!("\"{key}\" is missing; expected {expected}")),
        }
    }

    /// A text that must be there.
    pub fn text(&self, key: &str) -> Result<&'a str> {
        self.find_text(key)?.ok_or_else(|| self.wrong(key, "a string"))
    }

    /// A text that may be absent.
    pub fn find_text(&self, key: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, "a string"))
    }

    /// A count that must be there.
    pub fn count(&self, key: &str) -> Result<usize> {
        let count = self.get(key).and_then(Value::as_u64).filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
        count.ok_or_else(|| self.wrong(key, "a whole number above 0"))
    }

    /// A count that may be absent or null.
    pub fn count_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.get(key).is_none() { Ok(default) } else { self.count(key) }
    }

    /// A count with one default where it is absent and another where it is null.
    pub fn count_or_null(&self, key: &str, absent: usize, null: usize) -> Result<usize> {
        self.count_or(key, if self.json.get(key).is_none() { absent } else { null })
    }

    /// A number that may be absent.
    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| self.wrong(key, "a number"))
    }

    /// A number that must be there.
    pub fn need(&self, key: &str) -> Result<f64> {
        self.number(key)?.ok_or_else(|| self.wrong(key, "a number"))
    }

    /// A list of numbers that may be absent.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let numbers = value.as_array().and_then(|list| list.iter().map(Value::as_f64).collect());
        numbers.map(Some).ok_or_else(|| self.wrong(key, "a list of numbers"))
    }

    /// A switch with its default.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(key, "true or false"))
    }

    /// An object that may be absent.
    pub fn object(&self, key: &str) -> Result<Option<Fields<'a>>> {
        let Some(json) = self.get(key) else { return Ok(None) };
        if json.is_object() { Ok(Some(Fields { json, path: self.path })) } else { Err(self.wrong(key, "an object")) }
    }
}

/// The value, or its beginning.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{} …", &text[..at]),
        None => text,
    }
}
