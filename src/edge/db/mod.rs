//! Every SQL statement of the Worker and of the Durable Object, and what its failures mean.
//!
//! A mutation is one batch, which D1 runs as a transaction (R1). What can fail in it fails by a
//! constraint of the schema, so that no read has to come first.

mod d1;
pub mod documents;
mod error;
mod expiry;
pub mod log;
pub mod nodes;
pub mod presence;
mod retry;
pub mod signals;
mod statement;
pub mod telemetry;
pub mod workspaces;

use std::time::Duration;

use futures_util::future::{Either, select};
use js_sys::Array;
use wasm_bindgen::JsValue;
use worker::Delay;

pub use d1::{Database, Row};
pub use error::DbError;
use error::{NO_ANSWER, classify, unreadable};
use retry::{pause_ms, retried};
pub use statement::{Bind, Statement, statement};

/// The database, with a time limit on every call.
#[derive(Debug, Clone)]
pub struct Db {
    database: Database,
    deadline_ms: u64,
    is_keyed: bool,
}

impl Db {
    /// Wraps the binding.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database, deadline_ms: D1_DEADLINE_MS, is_keyed: false }
    }

    /// The same database, for a caller that does without an answer sooner.
    #[must_use]
    pub fn within(self, deadline_ms: u64) -> Self {
        Self { deadline_ms, ..self }
    }

    /// The same database for what a key makes harmless to do twice, if there is one: batches are run
    /// again when nobody knows whether they were committed (R2).
    #[must_use]
    pub fn keyed(&self, is_keyed: bool) -> Self {
        Self { is_keyed, ..self.clone() }
    }

    /// Runs statements as one transaction, and returns the rows of each.
    pub async fn batch(&self, statements: Vec<Statement<'_>>) -> Result<Results, DbError> {
        let statements: Vec<(String, Array)> = statements
            .into_iter()
            .map(|statement| (statement.sql, statement.binds.into_iter().map(js_value).collect()))
            .collect();
        retried(self.is_keyed, || self.run(&statements), pause).await
    }

    async fn run(&self, statements: &[(String, Array)]) -> Result<Results, DbError> {
        let deadline = Delay::from(Duration::from_millis(self.deadline_ms));
        match select(Box::pin(d1::run(&self.database, statements)), deadline).await {
            Either::Left((Ok(results), _)) => Ok(Results(results)),
            Either::Left((Err(message), _)) => Err(classify(message)),
            Either::Right(_) => Err(classify(NO_ANSWER.to_owned())),
        }
    }
}

async fn pause(attempt: u32, cause: String) {
    worker::console_error!("storage, before attempt {attempt}: {cause}");
    Delay::from(Duration::from_millis(pause_ms(attempt, js_sys::Math::random()))).await;
}

/// What a batch returned.
#[derive(Debug)]
pub struct Results(Vec<JsValue>);

impl Results {
    /// The rows of the `index`th statement.
    #[must_use]
    pub fn rows(&self, index: usize) -> Vec<Row> {
        self.0.get(index).map(Row::all).unwrap_or_default()
    }

    /// The first row of the `index`th statement.
    #[must_use]
    pub fn row(&self, index: usize) -> Option<Row> {
        self.rows(index).into_iter().next()
    }
}

fn js_value(bind: Bind<'_>) -> JsValue {
    match bind {
        Bind::Null => JsValue::NULL,
        Bind::Int(number) => JsValue::from_f64(number as f64),
        Bind::Text(text) => JsValue::from_str(text),
    }
}

/// How long D1 may take. It stalls for a minute now and then; a caller gets 503 instead of waiting.
const D1_DEADLINE_MS: u64 = 8_000;
