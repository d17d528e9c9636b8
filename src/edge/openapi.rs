//! `GET /api/openapi.json`: the description of the API, from a script beside the module.

use wasm_bindgen::prelude::*;

use super::respond::{self, Answer};
use crate::api::problem::{Problem, ProblemCode};

/// Answers with the document as plain JSON, whatever the client accepts.
pub fn openapi() -> Answer {
    let text = openapi_text().map_err(|_| {
        worker::console_error!("build/openapi.js is not what it should be; build again");
        Problem::new(ProblemCode::Internal)
    })?;
    let fields = [("Content-Type", "application/json"), ("Cache-Control", "public, max-age=300")];
    Ok(worker::ResponseBuilder::new().with_headers(respond::headers(&fields)).fixed(text.into_bytes()))
}

#[wasm_bindgen]
extern "C" {
    /// As `entry.mjs` offers it.
    #[wasm_bindgen(js_namespace = yrelayLazy, js_name = openapi, catch)]
    fn openapi_text() -> Result<String, JsValue>;
}
