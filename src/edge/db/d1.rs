//! The D1 binding as JavaScript has it, and rows read column by column.
//!
//! The platform crate's own D1 types decode rows through serde, which costs code for every type of
//! row; a dozen small rows are read by name here.

use js_sys::{Array, Promise, Reflect};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

#[wasm_bindgen]
extern "C" {
    /// The database binding.
    #[derive(Debug, Clone)]
    pub type Database;

    type Prepared;

    #[wasm_bindgen(method, catch)]
    fn prepare(this: &Database, sql: &str) -> Result<Prepared, JsValue>;

    #[wasm_bindgen(method, catch)]
    fn batch(this: &Database, statements: &Array) -> Result<Promise, JsValue>;

    #[wasm_bindgen(method, catch, variadic)]
    fn bind(this: &Prepared, values: &Array) -> Result<Prepared, JsValue>;
}

/// Runs statements as one transaction. The error is D1's message.
pub async fn run(database: &Database, statements: &[(String, Array)]) -> Result<Vec<JsValue>, String> {
    let prepared = Array::new();
    for (sql, values) in statements {
        let statement =
            database.prepare(sql).and_then(|statement| statement.bind(values)).map_err(message)?;
        prepared.push(&statement);
    }
    let promise = database.batch(&prepared).map_err(message)?;
    let results = JsFuture::from(promise).await.map_err(message)?;
    Ok(Array::from(&results).iter().collect())
}

/// One row of a result.
#[derive(Debug)]
pub struct Row(JsValue);

impl Row {
    /// The rows of one statement's result.
    pub fn all(result: &JsValue) -> Vec<Self> {
        let rows = Reflect::get(result, &JsValue::from_str("results")).unwrap_or(JsValue::UNDEFINED);
        if Array::is_array(&rows) { Array::from(&rows).iter().map(Row).collect() } else { Vec::new() }
    }

    /// An integer column; `None` for NULL and for a column that is not there.
    pub fn int(&self, column: &str) -> Option<u64> {
        self.get(column).as_f64().map(|number| number as u64)
    }

    /// A text column; `None` for NULL and for a column that is not there.
    pub fn text(&self, column: &str) -> Option<String> {
        self.get(column).as_string()
    }

    fn get(&self, column: &str) -> JsValue {
        Reflect::get(&self.0, &JsValue::from_str(column)).unwrap_or(JsValue::UNDEFINED)
    }
}

/// D1 puts SQLite's words into the message, or into the message of the cause.
fn message(error: JsValue) -> String {
    let text = |error: &JsValue| {
        Reflect::get(error, &JsValue::from_str("message")).ok().and_then(|message| message.as_string())
    };
    let cause = Reflect::get(&error, &JsValue::from_str("cause")).ok().and_then(|cause| text(&cause));
    match (text(&error), cause) {
        (Some(message), Some(cause)) => format!("{message} ({cause})"),
        (Some(message), None) => message,
        (None, _) => error.as_string().unwrap_or_else(|| "an error without a message".to_owned()),
    }
}
