//! Shows documents and makes edits for those who do not speak Yjs.

use wasm_bindgen::prelude::*;

use crate::api::content::parse_replacement;
use crate::api::edit::{Base, EditRequest, parse_edits, refused};
use crate::api::problem::{Problem, ProblemCode};
use crate::document::edit::edit as make;
use crate::document::error::DocumentError;
use crate::document::{checkpoint, project};

/// What came of a call: a problem, or bytes.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Outcome {
    problem: Option<String>,
    bytes: Vec<u8>,
    vector: Vec<u8>,
    only_appends: bool,
}

#[wasm_bindgen]
impl Outcome {
    /// The problem, as `Problem::to_wire` writes it.
    #[wasm_bindgen(getter)]
    pub fn problem(&self) -> Option<String> {
        self.problem.clone()
    }

    /// The text, or the update.
    #[wasm_bindgen(getter)]
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// The state vector of the document after the edits.
    #[wasm_bindgen(getter)]
    pub fn vector(&self) -> Vec<u8> {
        self.vector.clone()
    }

    /// Whether the edits do the same whatever the text is, and rely on no base.
    #[wasm_bindgen(getter, js_name = onlyAppends)]
    pub fn only_appends(&self) -> bool {
        self.only_appends
    }
}

impl From<Result<Self, Problem>> for Outcome {
    fn from(result: Result<Self, Problem>) -> Self {
        result.unwrap_or_else(|problem| Self { problem: Some(problem.to_wire()), ..Self::default() })
    }
}

/// Shows a document, or one root of it, as text.
#[wasm_bindgen(js_name = showText)]
pub fn show_text(update: &[u8], root: Option<String>) -> Outcome {
    let text = project::text(update, root.as_deref()).map_err(|error| unshown(&error));
    text.map(|text| Outcome { bytes: text.into_bytes(), ..Outcome::default() }).into()
}

/// Shows a document, or one root of it, as JSON.
#[wasm_bindgen(js_name = showJson)]
pub fn show_json(update: &[u8], root: Option<String>) -> Outcome {
    let shown = project::json(update).map_err(|error| unshown(&error)).map(|mut value| {
        if let Some(root) = root {
            value = value.get(&root).cloned().unwrap_or(serde_json::Value::Null);
        }
        Outcome { bytes: value.to_string().into_bytes(), ..Outcome::default() }
    });
    shown.into()
}

/// Checks the body of a request for edits.
#[wasm_bindgen(js_name = checkEdits)]
pub fn check_edits(body: &[u8]) -> Outcome {
    let read = parse_edits(body);
    read.map(|wanted| Outcome { only_appends: appends(&wanted), ..Outcome::default() }).into()
}

/// Makes edits on a stored document at a clock, as a new Yjs client. Its updates come one after the
/// other, with their lengths.
#[wasm_bindgen]
pub fn edit(body: &[u8], packed: &[u8], lengths: &[u32], clock: f64, client: f64) -> Outcome {
    let mut rest = packed;
    let mut stored = Vec::with_capacity(lengths.len());
    for length in lengths {
        let Some((update, after)) = rest.split_at_checked(*length as usize) else { break };
        stored.push(update);
        rest = after;
    }
    make_edits(body, &stored, clock as u64, client as u64).into()
}

/// The update of a body of `PUT …/docs/<path>` that is text or JSON, or an update that can stand alone.
#[wasm_bindgen]
pub fn replacement(
    content_type: Option<String>,
    body: Vec<u8>,
    root: Option<String>,
    client: f64,
) -> Outcome {
    let update = parse_replacement(content_type.as_deref(), body, root.as_deref(), client as u64);
    update.map(|bytes| Outcome { bytes, ..Outcome::default() }).into()
}

fn make_edits(body: &[u8], stored: &[&[u8]], clock: u64, client: u64) -> Result<Outcome, Problem> {
    let wanted = parse_edits(body)?;
    let has_base = match &wanted.base {
        None => true,
        Some(Base::Clock(base)) => *base == clock,
        Some(Base::Vector(vector)) => {
            let whole = checkpoint::merge(stored);
            let covered = whole.and_then(|whole| checkpoint::is_covered(&whole, vector));
            covered.map_err(|_| Problem::new(ProblemCode::Internal))?
        }
    };
    if !has_base {
        let mut problem = Problem::new(ProblemCode::StaleBase).with("clock", clock);
        problem.clock = Some(clock);
        return Err(problem);
    }
    let edited = make(stored, &[(&wanted.root, &wanted.edits)], client).map_err(|error| refused(&error))?;
    Ok(Outcome {
        only_appends: appends(&wanted),
        bytes: if edited.is_empty() { Vec::new() } else { edited.update },
        vector: edited.vector,
        problem: None,
    })
}

fn appends(wanted: &EditRequest) -> bool {
    wanted.only_appends() && wanted.base.is_none()
}

/// A document that cannot be shown as asked: the caller has to name a root.
fn unshown(error: &DocumentError) -> Problem {
    Problem::because(ProblemCode::BadRequest, error.to_string())
}
