//! SHA-256 as lower-case hex: the identity of requests, inputs and weights.

use super::StoreError;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// SHA-256 of bytes, in lower-case hex.
pub fn hash_bytes(bytes: &[u8]) -> String {
    hex(&digest(bytes))
}

/// SHA-256 of bytes.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of a file, read in pieces of 1 MiB.
///
/// # Errors
/// If the file cannot be read.
pub fn hash_file(path: &Path) -> Result<String, StoreError> {
    let mut file = File::open(path).map_err(StoreError::io(path, "opening"))?;
    let mut digest = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut piece).map_err(StoreError::io(path, "reading"))?;
        if read == 0 {
            return Ok(hex(&digest.finalize()));
        }
        digest.update(&piece[..read]);
    }
}

/// Bytes in lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_standards_own_for_abc() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(hash_bytes(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
