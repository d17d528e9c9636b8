//! `GET /api/openapi.json`: the description of the API, decompressed by the platform.

use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;

use super::respond::{self, Answer};
use crate::api::openapi::OPENAPI_GZIP;
use crate::api::problem::{Problem, ProblemCode};

/// Answers with the document as plain JSON, whatever the client accepts.
pub fn openapi() -> Answer {
    let document = document().map_err(|_| {
        worker::console_error!("the platform cannot decompress the OpenAPI document");
        Problem::new(ProblemCode::Internal)
    })?;
    let fields = [("Content-Type", "application/json"), ("Cache-Control", "public, max-age=300")];
    let response = worker::ResponseBuilder::new().with_headers(respond::headers(&fields));
    Ok(response.stream(document.unchecked_into()))
}

/// The stream of its text. A response of the bytes is the shortest way to a stream of them.
fn document() -> Result<Stream, JsValue> {
    let gzip = Bytes::new(&Uint8Array::from(OPENAPI_GZIP))?.body();
    gzip.pipe_through(&DecompressionStream::new("gzip")?)
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = Response)]
    type Bytes;

    #[wasm_bindgen(constructor, catch, js_class = "Response")]
    fn new(bytes: &Uint8Array) -> Result<Bytes, JsValue>;

    #[wasm_bindgen(method, getter, js_class = "Response")]
    fn body(this: &Bytes) -> Stream;

    #[wasm_bindgen(js_name = ReadableStream)]
    type Stream;

    #[wasm_bindgen(method, catch, js_class = "ReadableStream", js_name = pipeThrough)]
    fn pipe_through(this: &Stream, through: &DecompressionStream) -> Result<Stream, JsValue>;

    type DecompressionStream;

    #[wasm_bindgen(constructor, catch)]
    fn new(format: &str) -> Result<DecompressionStream, JsValue>;
}
