//! GGUF files (versions 2 and 3, little endian): header, metadata and tensors, read through a map.
//! Nothing in the file is believed before it is checked against the file's length.

use super::error::{Result, StudentError};
use super::quant::Format;
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Arrays inside arrays deeper than this are refused.
const MAX_DEPTH: usize = 4;
/// Tensors of more numbers than this are refused, so that their size in bytes fits a machine word.
const MAX_NUMBERS: usize = 1 << 56;
/// Arrays of more items than this are not read; the largest vocabularies have 3·10^5 tokens and 6·10^5 merges.
const MAX_ITEMS: usize = 1 << 21;
/// What the cause of every unreadable metadata value begins with.
const WHAT: &str = "a metadata value";

/// One metadata value.
#[derive(Debug)]
pub(crate) enum Meta {
    /// Any integer type, bools as 0 and 1.
    Int(i128),
    Float(f64),
    Text(Range<usize>),
    /// Checked to lie in the file, read where it is asked for.
    Array {
        kind: u32,
        count: usize,
        at: usize,
    },
}

/// Where one tensor lies.
#[derive(Debug)]
pub(crate) struct Entry {
    /// As stored: the fastest axis first.
    pub dims: Vec<usize>,
    pub format: Format,
    /// Bytes of the file.
    pub bytes: Range<usize>,
}

/// An open GGUF file.
pub(crate) struct Gguf {
    path: PathBuf,
    map: Mmap,
    meta: BTreeMap<String, Meta>,
    tensors: BTreeMap<String, Entry>,
}

impl Gguf {
    /// Maps and checks a file.
    pub fn open(path: &Path) -> Result<Gguf> {
        let map = super::weights::map(path)?;
        let mut reader = Reader { path, bytes: &map, at: 0 };
        let (meta, tensors) = reader.file()?;
        Ok(Gguf { path: path.to_owned(), meta, tensors, map })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn tensors(&self) -> &BTreeMap<String, Entry> {
        &self.tensors
    }

    pub fn has(&self, tensor: &str) -> bool {
        self.tensors.contains_key(tensor)
    }

    /// A tensor's dimensions, slowest axis first.
    pub fn dims(&self, tensor: &str) -> Result<Vec<usize>> {
        let entry = self.tensors.get(tensor);
        let entry = entry.ok_or_else(|| StudentError::file(&self.path, format!("tensor \"{tensor}\" is missing")))?;
        Ok(entry.dims.iter().rev().copied().collect())
    }

    /// A tensor's raw bytes.
    pub fn bytes(&self, entry: &Entry) -> &[u8] {
        &self.map[entry.bytes.clone()]
    }

    pub fn get(&self, key: &str) -> Option<&Meta> {
        self.meta.get(key)
    }

    fn find_text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(|meta| self.as_text(meta))
    }

    /// The text of a value, where it is one.
    pub fn as_text(&self, meta: &Meta) -> Option<&str> {
        let Meta::Text(range) = meta else { return None };
        std::str::from_utf8(&self.map[range.clone()]).ok()
    }

    pub fn text(&self, key: &str) -> Result<&str> {
        self.find_text(key).ok_or_else(|| self.wrong(key, "a string"))
    }

    fn find_count(&self, key: &str) -> Option<usize> {
        match self.get(key) {
            Some(Meta::Int(n)) => usize::try_from(*n).ok(),
            _ => None,
        }
    }

    /// A text that may be absent.
    pub fn text_if(&self, key: &str) -> Result<Option<&str>> {
        if self.get(key).is_none() { Ok(None) } else { self.text(key).map(Some) }
    }

    /// A count that may be absent.
    pub fn count_if(&self, key: &str) -> Result<Option<usize>> {
        if self.get(key).is_none() { Ok(None) } else { self.count(key).map(Some) }
    }

    pub fn count(&self, key: &str) -> Result<usize> {
        self.find_count(key).ok_or_else(|| self.wrong(key, "a whole number"))
    }

    pub fn count_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.get(key).is_none() { Ok(default) } else { self.count(key) }
    }

    pub fn number_or(&self, key: &str, default: f64) -> Result<f64> {
        match self.get(key) {
            None => Ok(default),
            Some(Meta::Float(x)) => Ok(*x),
            Some(Meta::Int(n)) => Ok(*n as f64),
            Some(_) => Err(self.wrong(key, "a number")),
        }
    }

    /// A number that must be there.
    pub fn number(&self, key: &str) -> Result<f64> {
        if self.get(key).is_none() { Err(self.wrong(key, "a number")) } else { self.number_or(key, 0.0) }
    }

    /// An array of texts.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>> {
        let wrong = || self.wrong(key, "an array of strings");
        let items = self.items(key)?.ok_or_else(wrong)?;
        items.iter().map(|item| self.as_text(item).ok_or_else(wrong)).collect()
    }

    /// An array of integers.
    pub fn ints(&self, key: &str) -> Result<Vec<i128>> {
        let wrong = || self.wrong(key, "an array of integers");
        let items = self.items(key)?.ok_or_else(wrong)?;
        items.iter().map(|item| if let Meta::Int(n) = item { Ok(*n) } else { Err(wrong()) }).collect()
    }

    /// An array of numbers.
    pub fn floats(&self, key: &str) -> Result<Vec<f64>> {
        let wrong = || self.wrong(key, "an array of numbers");
        let items = self.items(key)?.ok_or_else(wrong)?;
        items.iter().map(|item| if let Meta::Float(x) = item { Ok(*x) } else { Err(wrong()) }).collect()
    }

    /// The items of an array, where the value is one.
    fn items(&self, key: &str) -> Result<Option<Vec<Meta>>> {
        let Some(Meta::Array { kind, count, at }) = self.get(key) else { return Ok(None) };
        if *count > MAX_ITEMS {
            let cause = format!("metadata \"{key}\" has {count} items; expected at most {MAX_ITEMS}");
            return Err(StudentError::file(&self.path, cause));
        }
        let mut reader = Reader { path: &self.path, bytes: &self.map, at: *at };
        let mut items = Vec::with_capacity(*count);
        for _ in 0..*count {
            items.push(reader.value(*kind, 1)?);
        }
        Ok(Some(items))
    }

    fn wrong(&self, key: &str, expected: &str) -> StudentError {
        let found = if self.get(key).is_some() { "found another type" } else { "it is missing" };
        StudentError::file(&self.path, format!("metadata \"{key}\": expected {expected}, {found}"))
    }
}

/// A cursor that never leaves the file.
struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

type Tables = (BTreeMap<String, Meta>, BTreeMap<String, Entry>);

impl Reader<'_> {
    fn fail<T>(&self, cause: impl std::fmt::Display) -> Result<T> {
        Err(StudentError::file(self.path, cause))
    }

    fn file(&mut self) -> Result<Tables> {
        if self.take(4, "the magic number")? != b"GGUF" {
            return self.fail("not a GGUF file: it does not begin with \"GGUF\"");
        }
        let version = self.u32("the version")?;
        if version != 2 && version != 3 {
            return self.fail(format!("GGUF version {version} is not supported; expected 2 or 3, little endian"));
        }
        // A tensor's entry takes at least 24 bytes, a metadata entry at least 13.
        let tensors = self.counted("tensors", 24)?;
        let keys = self.counted("metadata entries", 13)?;
        let mut meta = BTreeMap::new();
        for _ in 0..keys {
            let key = self.name("a metadata key")?;
            let kind = self.u32("a metadata type")?;
            let value = self.value(kind, 0)?;
            if meta.insert(key.clone(), value).is_some() {
                return self.fail(format!("metadata \"{key}\" appears twice"));
            }
        }
        let align = match meta.get("general.alignment") {
            None => 32,
            Some(Meta::Int(n)) if (1..=1 << 20).contains(n) && (*n as u64).is_power_of_two() => *n as usize,
            Some(_) => return self.fail("general.alignment is not a power of two up to 2^20"),
        };
        let mut entries = Vec::new();
        for _ in 0..tensors {
            entries.push(self.entry(align)?);
        }
        let start = self.at.next_multiple_of(align);
        Ok((meta, self.placed(entries, start)?))
    }

    /// Name, dimensions, format and offset within the data.
    fn entry(&mut self, align: usize) -> Result<(String, Entry)> {
        let name = self.name("a tensor name")?;
        let rank = self.u32("a tensor rank")?;
        if !(1..=4).contains(&rank) {
            return self.fail(format!("tensor \"{name}\" has {rank} dimensions; expected 1 to 4"));
        }
        let mut dims = Vec::new();
        let mut values = 1usize;
        for _ in 0..rank {
            let dim = usize::try_from(self.u64("a dimension")?).unwrap_or(usize::MAX);
            values = match values.checked_mul(dim) {
                Some(values) if dim > 0 && values <= MAX_NUMBERS => values,
                _ => return self.fail(format!("tensor \"{name}\" has an impossible dimension {dim}")),
            };
            dims.push(dim);
        }
        let code = self.u32("a tensor type")?;
        let Some(format) = Format::from_gguf(code) else {
            return self.fail(format!(
                "tensor \"{name}\" has type {code}, which is not supported; expected one of {}",
                Format::names()
            ));
        };
        let Some(length) = format.bytes_for(dims[0], values) else {
            return self
                .fail(format!("tensor \"{name}\": rows of {} do not divide into blocks of {format:?}", dims[0]));
        };
        let offset = usize::try_from(self.u64("a tensor offset")?).unwrap_or(usize::MAX);
        if !offset.is_multiple_of(align) {
            return self.fail(format!("tensor \"{name}\": offset {offset} is not a multiple of {align}"));
        }
        let Some(end) = offset.checked_add(length) else {
            return self.fail(format!("tensor \"{name}\": offset {offset} lies outside the file"));
        };
        Ok((name, Entry { dims, format, bytes: offset..end }))
    }

    /// Moves offsets to file positions; refuses what overlaps or ends behind the file.
    fn placed(&self, mut entries: Vec<(String, Entry)>, start: usize) -> Result<BTreeMap<String, Entry>> {
        entries.sort_by_key(|(_, entry)| entry.bytes.start);
        let mut free = start;
        let mut tensors = BTreeMap::new();
        for (name, mut entry) in entries {
            let moved = |x: usize| start.checked_add(x).filter(|x| *x <= self.bytes.len());
            let (Some(from), Some(to)) = (moved(entry.bytes.start), moved(entry.bytes.end)) else {
                let length = self.bytes.len();
                return self.fail(format!(
                    "tensor \"{name}\" ends behind the file of {length} bytes; is the download complete?"
                ));
            };
            if from < free {
                return self.fail(format!("tensor \"{name}\" overlaps the tensor before it"));
            }
            free = to;
            entry.bytes = from..to;
            if tensors.insert(name.clone(), entry).is_some() {
                return self.fail(format!("tensor \"{name}\" appears twice"));
            }
        }
        Ok(tensors)
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Meta> {
        Ok(match kind {
            0 => Meta::Int(self.fixed::<1>(WHAT)?[0].into()),
            1 => Meta::Int(i8::from_le_bytes(self.fixed(WHAT)?).into()),
            2 => Meta::Int(u16::from_le_bytes(self.fixed(WHAT)?).into()),
            3 => Meta::Int(i16::from_le_bytes(self.fixed(WHAT)?).into()),
            4 => Meta::Int(u32::from_le_bytes(self.fixed(WHAT)?).into()),
            5 => Meta::Int(i32::from_le_bytes(self.fixed(WHAT)?).into()),
            6 => Meta::Float(f32::from_le_bytes(self.fixed(WHAT)?).into()),
            7 => Meta::Int((self.fixed::<1>(WHAT)?[0] != 0).into()),
            8 => Meta::Text(self.string(WHAT)?),
            9 => self.array(depth)?,
            10 => Meta::Int(self.u64(WHAT)?.into()),
            11 => Meta::Int(i64::from_le_bytes(self.fixed(WHAT)?).into()),
            12 => Meta::Float(f64::from_le_bytes(self.fixed(WHAT)?)),
            other => return self.fail(format!("unknown metadata type {other}")),
        })
    }

    /// Steps over an array; its items are checked to lie in the file.
    fn array(&mut self, depth: usize) -> Result<Meta> {
        if depth >= MAX_DEPTH {
            return self.fail("metadata arrays are nested too deeply");
        }
        let kind = self.u32("an array type")?;
        let least = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => 12,
            other => return self.fail(format!("unknown metadata type {other}")),
        };
        let count = self.counted("array items", least)?;
        let at = self.at;
        match kind {
            8 => (0..count).try_for_each(|_| self.string(WHAT).map(|_| ()))?,
            9 => (0..count).try_for_each(|_| self.array(depth + 1).map(|_| ()))?,
            // Within the file: counted as such.
            _ => self.at += count * least,
        }
        Ok(Meta::Array { kind, count, at })
    }

    /// A count that the rest of the file could hold, `least` bytes each.
    fn counted(&mut self, what: &str, least: usize) -> Result<usize> {
        let count = self.u64(what)?;
        let left = (self.bytes.len() - self.at) / least;
        match usize::try_from(count) {
            Ok(count) if count <= left => Ok(count),
            _ => self.fail(format!("it claims {count} {what}, more than the file can hold; is the download complete?")),
        }
    }

    fn name(&mut self, what: &str) -> Result<String> {
        let range = self.string(what)?;
        match std::str::from_utf8(&self.bytes[range]) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => self.fail(format!("{what} is not UTF-8")),
        }
    }

    fn string(&mut self, what: &str) -> Result<Range<usize>> {
        let length = usize::try_from(self.u64(what)?).unwrap_or(usize::MAX);
        let start = self.at;
        self.take(length, what)?;
        Ok(start..self.at)
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.fixed(what)?))
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.fixed(what)?))
    }

    fn fixed<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    fn take(&mut self, count: usize, what: &str) -> Result<&[u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return self.fail(format!("the file ends at byte {} inside {what}; is it truncated?", self.bytes.len()));
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }
}
