//! A fingerprint of build inputs, to skip work whose inputs did not change. Not for security.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The fingerprint (FNV-1a, 64 bit) of some byte strings; each length counts, so moving a byte from
/// one to the next changes it.
pub fn of(parts: &[&[u8]]) -> String {
    let mut hash = OFFSET;
    for part in parts {
        let length = (part.len() as u64).to_le_bytes();
        for byte in length.iter().chain(*part) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    }
    format!("{hash:016x}")
}

/// The fingerprint of files (and of all files in folders) under `root`, by name and content.
pub fn of_files(root: &Path, names: &[&str], extra: &[&str]) -> Result<String> {
    let mut files = Vec::new();
    for name in names {
        collect(&root.join(name), &mut files)?;
    }
    files.sort();
    let mut parts: Vec<Vec<u8>> = extra.iter().map(|text| text.as_bytes().to_vec()).collect();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file);
        parts.push(name.to_string_lossy().replace('\\', "/").into_bytes());
        parts.push(fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(of(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    for entry in fs::read_dir(path).map_err(failed)? {
        collect(&entry.map_err(failed)?.path(), files)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_every_border_counts() {
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"ab"]), of(&[b"ac"]));
        assert_eq!(of(&[b"ab"]), of(&[b"ab"]));
    }
}
