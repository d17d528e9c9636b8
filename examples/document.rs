//! The document functions as a line protocol, so that a script with stock Yjs can compare.
//!
//! One request a line, one answer a line, bytes in hex (`-` for none):
//! `validate U` → `ok`, `json U` → JSON, `text U ROOT` → a JSON string, `merge U…` → hex,
//! `diff U SV` → hex, `vector U` → hex, `hole U` → `true` or `false`; `edit U BODY CLIENT` → hex, with
//! the body of an edit request in hex. A failure is `error …`.

use std::io::{BufRead, Write};

use yrelay::api::edit::{parse_edits, refused};
use yrelay::document::checkpoint::{diff, has_hole, merge, state_vector};
use yrelay::document::edit;
use yrelay::document::error::DocumentError;
use yrelay::document::project;
use yrelay::document::validate::validate_update;

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split(' ');
        let command = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        match answer(command, &words) {
            Ok(text) => writeln!(out, "{text}")?,
            Err(error) => writeln!(out, "error {error}")?,
        }
    }
    out.flush()
}

fn answer(command: &str, words: &[&str]) -> Result<String, DocumentError> {
    let bytes: Vec<Vec<u8>> = words.iter().map(|word| unhex(word)).collect();
    let first = bytes.first().map(Vec::as_slice).unwrap_or_default();
    let second = bytes.get(1).map(Vec::as_slice).unwrap_or_default();
    Ok(match command {
        "validate" => {
            validate_update(first)?;
            "ok".to_owned()
        }
        "json" => project::json(first)?.to_string(),
        "text" => serde_json::Value::from(project::text(first, words.get(1).copied())?).to_string(),
        "merge" => hex(&merge(&bytes.iter().map(Vec::as_slice).collect::<Vec<_>>())?),
        "diff" => hex(&diff(first, second)?),
        "vector" => hex(&state_vector(first)?),
        "edit" => return Ok(edit(first, second, words.get(2).copied())),
        "hole" => has_hole(first)?.to_string(),
        other => format!("error unknown command {other}"),
    })
}

/// The edits of a request as an update, and the state vector after it; or the code of the problem.
fn edit(update: &[u8], body: &[u8], client: Option<&str>) -> String {
    let client = client.and_then(|client| client.parse().ok()).unwrap_or(1);
    let made = parse_edits(body).and_then(|request| {
        edit::edit(&[update], &[(&request.root, &request.edits)], client).map_err(|error| refused(&error))
    });
    match made {
        Ok(made) => format!("{} {}", hex(&made.update), hex(&made.vector)),
        Err(problem) => format!("error {}", problem.code.info().name),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of a hex word; what is not hex counts as nothing.
fn unhex(word: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        word.bytes().filter_map(|digit| char::from(digit).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
}
