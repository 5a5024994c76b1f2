//! One safetensors file, read through a map and checked before anything is believed: the header's
//! length, every dimension, every offset; no gap and no overlap.

use super::error::{Result, StudentError};
use super::quant::Format;
use memmap2::Mmap;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Longest header that is read, in bytes; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;
/// Most dimensions of one tensor; the models that are read have two.
const MAX_RANK: usize = 8;

/// An open safetensors file.
pub(crate) struct Shard {
    path: PathBuf,
    map: Mmap,
    tensors: BTreeMap<String, Entry>,
}

struct Entry {
    format: Format,
    dims: Vec<usize>,
    bytes: Range<usize>,
}

#[derive(Deserialize)]
struct Stored {
    dtype: String,
    shape: Shape,
    data_offsets: (usize, usize),
}

/// Dimensions, few enough that a hostile header cannot fill the memory with them.
struct Shape(Vec<usize>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Shape, D::Error> {
        struct Dims;
        impl<'de> Visitor<'de> for Dims {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "a list of dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Shape, A::Error> {
                let mut dims = Vec::new();
                while let Some(dim) = seq.next_element()? {
                    if dims.len() == MAX_RANK {
                        return Err(A::Error::custom(format!("more than {MAX_RANK} dimensions")));
                    }
                    dims.push(dim);
                }
                Ok(Shape(dims))
            }
        }
        from.deserialize_seq(Dims)
    }
}

/// The header, entry by entry: nothing is kept of what is not a tensor, and no name may come twice.
struct Header(BTreeMap<String, Stored>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Header, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Header, A::Error> {
                let mut all = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<BTreeMap<String, String>>()?;
                        continue;
                    }
                    let stored = map.next_value().map_err(|e| A::Error::custom(format!("tensor \"{name}\": {e}")))?;
                    if all.insert(name.clone(), stored).is_some() {
                        return Err(A::Error::custom(format!("tensor \"{name}\" appears twice")));
                    }
                }
                Ok(Header(all))
            }
        }
        from.deserialize_map(Entries)
    }
}

impl Shard {
    /// Maps and checks a file.
    pub fn open(path: &Path) -> Result<Shard> {
        let map = super::weights::map(path)?;
        let tensors = header(&map).map_err(|cause| StudentError::file(path, cause))?;
        Ok(Shard { path: path.to_owned(), map, tensors })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    pub fn dims(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|entry| &entry.dims[..])
    }

    pub fn to_f32(&self, name: &str) -> Result<Vec<f32>> {
        let entry = self.tensors.get(name);
        let entry = entry.ok_or_else(|| StudentError::file(&self.path, format!("tensor \"{name}\" is missing")))?;
        Ok(entry.format.to_f32(&self.map[entry.bytes.clone()]))
    }
}

fn header(file: &[u8]) -> std::result::Result<BTreeMap<String, Entry>, String> {
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(format!("a safetensors file has at least 8 bytes, this one has {}", file.len()));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER {
        return Err(format!("not a safetensors file: it claims a header of {length} bytes"));
    }
    let length = length as usize;
    let Some(header) = rest.get(..length) else {
        return Err(format!("truncated: its header has {length} bytes, the file only {}", file.len()));
    };
    let Header(stored) = serde_json::from_slice(header)
        .map_err(|e| format!("its header cannot be read as a JSON object of tensors: {e}"))?;
    let mut entries = Vec::new();
    for (name, stored) in stored {
        entries.push((entry(&stored).map_err(|cause| format!("tensor \"{name}\": {cause}"))?, name));
    }
    entries.sort_by_key(|(entry, _)| (entry.bytes.start, entry.bytes.end));
    let (start, mut next) = (8 + length, 0);
    let mut tensors = BTreeMap::new();
    for (mut entry, name) in entries {
        if entry.bytes.start != next {
            let what =
                if entry.bytes.start < next { "overlaps the tensor before it" } else { "leaves a gap before it" };
            return Err(format!("tensor \"{name}\" {what}: it begins at {}, expected {next}", entry.bytes.start));
        }
        next = entry.bytes.end;
        if next > file.len() - start {
            return Err(format!(
                "truncated: tensor \"{name}\" ends at byte {next} of the data, which has {}",
                file.len() - start
            ));
        }
        entry.bytes = start + entry.bytes.start..start + entry.bytes.end;
        tensors.insert(name, entry);
    }
    if start + next != file.len() {
        return Err(format!("{} bytes behind the last tensor", file.len() - start - next));
    }
    Ok(tensors)
}

fn entry(stored: &Stored) -> std::result::Result<Entry, String> {
    let format = match stored.dtype.as_str() {
        "F32" => Format::F32,
        "F16" => Format::F16,
        "BF16" => Format::BF16,
        other => return Err(format!("numbers of type {other} are not supported; expected F32, F16 or BF16")),
    };
    let values = stored.shape.0.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
    let expected = values.and_then(|values| format.bytes_for(1, values));
    let (from, to) = stored.data_offsets;
    match to.checked_sub(from) {
        Some(length) if Some(length) == expected => Ok(Entry { format, dims: stored.shape.0.clone(), bytes: from..to }),
        _ => Err(format!("offsets {from}..{to} do not hold {:?} numbers of type {}", stored.shape.0, stored.dtype)),
    }
}

/// Writes f32 tensors in the order given, one in memory at a time.
pub(crate) fn write<'a>(
    path: &Path,
    tensors: &'a [(String, Vec<usize>)],
    mut values: impl FnMut(&'a str) -> Result<Vec<f32>>,
) -> Result<()> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), serde_json::json!({"format": "pt"}));
    let mut at = 0;
    for (name, dims) in tensors {
        let end = at + 4 * dims.iter().product::<usize>();
        header.insert(name.clone(), serde_json::json!({"dtype": "F32", "shape": dims, "data_offsets": [at, end]}));
        at = end;
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    // Padded so that the numbers are aligned.
    header.resize(header.len().next_multiple_of(8), b' ');
    let fail = |error: std::io::Error| StudentError::file(path, error);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(fail)?);
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(fail)?;
    out.write_all(&header).map_err(fail)?;
    for (name, dims) in tensors {
        let numbers = values(name)?;
        if numbers.len() != dims.iter().product::<usize>() {
            return Err(StudentError::file(path, format!("\"{name}\" has {} numbers, not {dims:?}", numbers.len())));
        }
        for number in numbers {
            out.write_all(&number.to_le_bytes()).map_err(fail)?;
        }
    }
    out.into_inner().map_err(|e| fail(e.into_error()))?.sync_all().map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    fn refused(bytes: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        std::fs::write(&path, bytes).unwrap();
        let error = Shard::open(&path).err().expect("a broken file must be refused").to_string();
        assert!(error.contains("model.safetensors"), "{error}");
        error
    }

    #[test]
    fn what_is_written_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.safetensors");
        let tensors = [("b".to_owned(), vec![2, 2]), ("a".to_owned(), vec![1])];
        write(&path, &tensors, |name| Ok(if name == "a" { vec![7.5] } else { vec![1.0, 2.0, 3.0, 4.0] })).unwrap();
        let shard = Shard::open(&path).unwrap();
        assert_eq!(shard.dims("b"), Some(&[2, 2][..]));
        assert_eq!(shard.to_f32("b").unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(shard.to_f32("a").unwrap(), [7.5]);
    }

    #[test]
    fn broken_files_are_refused_with_the_cause() {
        let one = |body: &str| format!("{{\"w\":{{{body}}}}}");
        let good = one(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#);
        let cases: Vec<(Vec<u8>, &str)> = vec![
            (vec![], "empty"),
            (vec![1, 2, 3], "at least 8 bytes"),
            ((1u64 << 63).to_le_bytes().to_vec(), "claims a header of 9223372036854775808"),
            (100u64.to_le_bytes().to_vec(), "truncated"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n".to_vec(), "LFS pointer"),
            (file("[]", 0), "a JSON object of tensors"),
            (file("{\"w\":", 0), "a JSON object of tensors"),
            (file("{\"__metadata__\":{\"format\":[\"pt\"]}}", 0), "a JSON object of tensors"),
            (file(&format!("{}{}", "[".repeat(5000), "]".repeat(5000)), 0), "a JSON object of tensors"),
            (file(&format!("{{{0},{0}}}", &good[1..good.len() - 1]), 8), "\"w\" appears twice"),
            (
                file(&one(r#""dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]"#), 4),
                "more than 8 dimensions",
            ),
            (file(&one(r#""dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]"#), 1), "F8_E4M3"),
            (file(&good, 4), "truncated"),
            (file(&good, 12), "behind the last tensor"),
            (file(&one(r#""dtype":"F32","shape":[3],"data_offsets":[0,8]"#), 8), "do not hold"),
            (file(&one(r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#), 8), "do not hold"),
            (file(&one(r#""dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]"#), 8), "do not hold"),
            (file(&one(r#""dtype":"F32","shape":[-1],"data_offsets":[0,8]"#), 8), "\"w\""),
            (file(&one(r#""dtype":"I64","shape":[1],"data_offsets":[0,8]"#), 8), "I64"),
            (file(&one(r#""dtype":"F32","shape":[2],"data_offsets":[4,12]"#), 12), "gap"),
            (
                file(
                    r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
                    12,
                ),
                "overlaps",
            ),
            (
                file(
                    &one(r#""dtype":"F32","shape":[2],"data_offsets":[18446744073709551607,18446744073709551615]"#),
                    8,
                ),
                "gap",
            ),
        ];
        for (bytes, says) in cases {
            let error = refused(&bytes);
            assert!(error.contains(says), "expected \"{says}\" in: {error}");
        }
    }
}
