//! The content of documents by three readers: the core that serves it, yrs, and stock Yjs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde_json::{Map, Value, json};
use yrelay::document::checkpoint::{for_yrs, has_hole, merge, state_vector};
use yrelay::document::error::DocumentError;
use yrelay::document::validate::validate_update;
use yrs::updates::decoder::Decode;
use yrs::{Doc, OffsetKind, Options, ReadTxn, StateVector, Transact, Update};

use crate::Result;
use crate::fact::Node;
use crate::report::Report;

/// Compares a document whose rows are whole. `in_yjs` is what stock Yjs says of it, if there is one to ask.
pub fn check(
    node: &Node,
    updates: &[Vec<u8>],
    in_yjs: impl FnOnce(&Value) -> Result<Option<String>>,
    report: &mut Report,
) -> Result {
    let at = format!("doc_updates {}/{}", node.workspace, node.path);
    let mut clocks: Vec<u64> = node.updates.iter().map(|part| part.clock).collect();
    clocks.dedup();
    let refused =
        updates.iter().zip(&clocks).find_map(|(update, clock)| Some((clock, validate_update(update).err()?)));
    if let Some((clock, error)) = refused {
        report.fault(&format!("{at} clock {clock}"), &format!("it is no Yjs update: {error}"));
        return Ok(());
    }
    match states(updates) {
        Err(fault) => report.fault(&at, &fault),
        Ok(states) => {
            let request = json!({
                "updates": updates.iter().map(|update| BASE64.encode(update)).collect::<Vec<_>>(),
                "states": states.by_name, "vector": states.vector.filter(|_| !states.has_hole),
            });
            match in_yjs(&request)? {
                Some(fault) => report.fault(&at, &fault),
                None if states.has_hole => {
                    report.fault(&at, "it has a hole: updates that others depend on are not stored");
                }
                None => {
                    report.in_yjs += 1;
                    report.in_yrs += u64::from(states.by_name.contains_key("yrs"));
                }
            }
        }
    }
    Ok(())
}

struct States {
    /// The document as one update, by whoever made it.
    by_name: Map<String, Value>,
    /// Its state vector, which counts what waits for something, too.
    vector: Option<String>,
    has_hole: bool,
}

fn states(updates: &[Vec<u8>]) -> std::result::Result<States, String> {
    let failed = |error: DocumentError| format!("the core cannot merge it: {error}");
    let parts: Vec<&[u8]> = updates.iter().map(Vec::as_slice).collect();
    let merged = merge(&parts).map_err(failed)?;
    let vector = state_vector(&merged).map_err(failed)?;
    let mut by_name = Map::from_iter([("the core".to_owned(), BASE64.encode(&merged).into())]);
    match for_yrs(&merged) {
        // yrs takes the parts; what it would misread, `for_yrs` knows from the whole.
        Ok(_) => drop(by_name.insert("yrs".to_owned(), BASE64.encode(in_yrs(updates)?).into())),
        Err(DocumentError::Unsupported(_)) => {}
        Err(error) => return Err(failed(error)),
    }
    let has_hole = has_hole(&merged).map_err(failed)?;
    Ok(States { by_name, vector: Some(BASE64.encode(vector)), has_hole })
}

fn in_yrs(updates: &[Vec<u8>]) -> std::result::Result<Vec<u8>, String> {
    let doc = Doc::with_options(Options { offset_kind: OffsetKind::Utf16, ..Options::default() });
    for update in updates {
        let update = Update::decode_v1(update).map_err(|error| format!("yrs does not decode it: {error}"))?;
        let applied = doc.transact_mut().apply_update(update);
        applied.map_err(|error| format!("yrs does not apply it: {error}"))?;
    }
    let txn = doc.transact();
    Ok(txn.encode_state_as_update_v1(&StateVector::default()))
}
