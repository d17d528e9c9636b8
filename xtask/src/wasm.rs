//! What the gate wants to know about a WASM module: its compressed size and what it imports.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::Result;

const MAGIC: &[u8] = b"\0asm\x01\0\0\0";
const IMPORT_SECTION: u8 = 2;

/// The size after gzip at its best, in bytes.
pub fn gzip_size(module: &[u8]) -> Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(module)
        .and_then(|()| encoder.finish())
        .map(|zipped| zipped.len())
        .map_err(|error| error.to_string())
}

/// Fails when the module imports from `env`: a C function or an allocator that nobody provides, so
/// that the Worker would not start. Returns the number of imports.
pub fn check_imports(module: &[u8]) -> Result<usize> {
    let imports =
        imports(module).ok_or("build/index_bg.wasm is not a WASM module that this tool can read")?;
    let missing: Vec<&str> =
        imports.iter().filter(|(from, _)| from == "env").map(|(_, name)| name.as_str()).collect();
    if missing.is_empty() {
        Ok(imports.len())
    } else {
        Err(format!("imports from `env`: {}", missing.join(", ")))
    }
}

/// The (module, name) pairs of the import section.
fn imports(module: &[u8]) -> Option<Vec<(String, String)>> {
    let mut reader = Reader { rest: module.strip_prefix(MAGIC)? };
    while !reader.rest.is_empty() {
        let id = reader.byte()?;
        let length = reader.number()?;
        let section = reader.bytes(length)?;
        if id == IMPORT_SECTION {
            return Reader { rest: section }.import_section();
        }
    }
    Some(Vec::new())
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn import_section(&mut self) -> Option<Vec<(String, String)>> {
        let count = self.number()?;
        (0..count).map(|_| self.import()).collect()
    }

    fn import(&mut self) -> Option<(String, String)> {
        let found = (self.name()?, self.name()?);
        match self.byte()? {
            // A function, by type index.
            0 => drop(self.number()?),
            // A table: element type, limits.
            1 => {
                self.byte()?;
                self.limits()?;
            }
            // A memory.
            2 => self.limits()?,
            // A global: value type, mutability.
            3 => drop(self.bytes(2)?),
            // A tag: attribute, type index.
            4 => {
                self.byte()?;
                self.number()?;
            }
            _ => return None,
        }
        Some(found)
    }

    fn limits(&mut self) -> Option<()> {
        let has_maximum = self.byte()? & 1 == 1;
        self.number()?;
        if has_maximum {
            self.number()?;
        }
        Some(())
    }

    fn name(&mut self) -> Option<String> {
        let length = self.number()?;
        String::from_utf8(self.bytes(length)?.to_vec()).ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// An unsigned LEB128 number of at most 32 bits.
    fn number(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with a custom section, then an import of a memory with a maximum, a global and a function.
    fn module(from: &str) -> Vec<u8> {
        let named = |name: &str| {
            let mut bytes = vec![u8::try_from(name.len()).unwrap()];
            bytes.extend(name.as_bytes());
            bytes
        };
        let import = |from: &str, kind: &[u8]| [named(from), named("thing"), kind.to_vec()].concat();
        let body = [
            vec![3],
            import("./index_bg.js", &[2, 1, 0x80, 0x01, 0x80, 0x02]),
            import("./index_bg.js", &[3, 0x7f, 0]),
            import(from, &[0, 0x85, 0x01]),
        ]
        .concat();
        let length = u8::try_from(body.len()).unwrap();
        [MAGIC.to_vec(), vec![0, 2, 1, b'n'], vec![IMPORT_SECTION, length], body].concat()
    }

    #[test]
    fn an_import_from_env_is_named() {
        assert_eq!(check_imports(&module("./index_bg.js")), Ok(3));
        assert_eq!(check_imports(&module("env")), Err("imports from `env`: thing".to_owned()));
    }

    #[test]
    fn what_is_no_module_is_an_error() {
        assert!(check_imports(b"not wasm").is_err());
        let whole = module("env");
        assert!(check_imports(whole.split_at(whole.len() - 1).0).is_err());
    }

    #[test]
    fn gzip_makes_repetition_small() {
        assert!(gzip_size(&[7; 10_000]).unwrap() < 100);
    }
}
