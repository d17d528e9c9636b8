//! The module that shows and edits documents, as `entry.mjs` offers it. See `crate::document_module`.

use wasm_bindgen::prelude::*;

use crate::api::problem::{Problem, ProblemCode};

/// An update made of edits. Empty when they change nothing.
pub struct Edited {
    /// The Yjs update.
    pub update: Vec<u8>,
    /// The state vector of the document with it.
    pub vector: Vec<u8>,
    /// Whether it is the same whatever came in between.
    pub only_appends: bool,
}

/// A document as text.
pub fn show_text(whole: &[u8], root: Option<&str>) -> Result<Vec<u8>, Problem> {
    Ok(take(js::show_text(whole, root))?.bytes())
}

/// A document as JSON.
pub fn show_json(whole: &[u8], root: Option<&str>) -> Result<Vec<u8>, Problem> {
    Ok(take(js::show_json(whole, root))?.bytes())
}

/// Checks a body of edits, before anything is read.
pub fn check_edits(body: &[u8]) -> Result<(), Problem> {
    take(js::check_edits(body)).map(drop)
}

/// Makes edits on the stored updates of a document at a clock.
pub fn edit(body: &[u8], stored: &[&[u8]], clock: u64, client: u64) -> Result<Edited, Problem> {
    let lengths = stored.iter().map(|update| update.len() as u32).collect();
    let outcome = take(js::edit(body, &stored.concat(), lengths, clock as f64, client as f64))?;
    Ok(Edited { update: outcome.bytes(), vector: outcome.vector(), only_appends: outcome.only_appends() })
}

/// The update of a new content.
pub fn replacement(
    content_type: Option<&str>,
    body: &[u8],
    root: Option<&str>,
    client: u64,
) -> Result<Vec<u8>, Problem> {
    Ok(take(js::replacement(content_type, body, root, client as f64))?.bytes())
}

/// A trap of the module is a defect; it is caught here and nothing else is hurt.
fn take(result: Result<js::Outcome, JsValue>) -> Result<js::Outcome, Problem> {
    let outcome = result.map_err(|error| {
        worker::console_error!("documents: {error:?}");
        Problem::new(ProblemCode::Internal)
    })?;
    match outcome.problem() {
        Some(wire) => Err(Problem::from_wire(&wire)),
        None => Ok(outcome),
    }
}

#[allow(missing_docs)]
mod js {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        pub type Outcome;

        #[wasm_bindgen(method, getter)]
        pub fn problem(this: &Outcome) -> Option<String>;
        #[wasm_bindgen(method, getter)]
        pub fn bytes(this: &Outcome) -> Vec<u8>;
        #[wasm_bindgen(method, getter)]
        pub fn vector(this: &Outcome) -> Vec<u8>;
        #[wasm_bindgen(method, getter, js_name = onlyAppends)]
        pub fn only_appends(this: &Outcome) -> bool;

        #[wasm_bindgen(js_namespace = yrelayDocuments, js_name = showText, catch)]
        pub fn show_text(update: &[u8], root: Option<&str>) -> Result<Outcome, JsValue>;
        #[wasm_bindgen(js_namespace = yrelayDocuments, js_name = showJson, catch)]
        pub fn show_json(update: &[u8], root: Option<&str>) -> Result<Outcome, JsValue>;
        #[wasm_bindgen(js_namespace = yrelayDocuments, js_name = checkEdits, catch)]
        pub fn check_edits(body: &[u8]) -> Result<Outcome, JsValue>;
        #[wasm_bindgen(js_namespace = yrelayDocuments, catch)]
        pub fn edit(
            body: &[u8],
            packed: &[u8],
            lengths: Vec<u32>,
            clock: f64,
            client: f64,
        ) -> Result<Outcome, JsValue>;
        #[wasm_bindgen(js_namespace = yrelayDocuments, catch)]
        pub fn replacement(
            content_type: Option<&str>,
            body: &[u8],
            root: Option<&str>,
            client: f64,
        ) -> Result<Outcome, JsValue>;
    }
}
