//! Every SQL statement of the Worker and of the Durable Object, and what its failures mean.
//!
//! A mutation is one batch, which D1 runs as a transaction (R1). What can fail in it fails by a
//! constraint of the schema, so that no read has to come first.

pub mod documents;
pub mod log;
pub mod nodes;
pub mod workspaces;

use std::time::Duration;

use futures_util::future::{Either, select};
use serde::de::DeserializeOwned;
use wasm_bindgen::JsValue;
use worker::{D1Database, D1PreparedStatement, D1Result, Delay, Error};

/// The database, with a time limit on every call.
#[derive(Debug, Clone)]
pub struct Db {
    database: std::rc::Rc<D1Database>,
}

/// Why a batch was not committed, or may not have been.
#[derive(Debug)]
pub enum DbError {
    /// The idempotency key was used before.
    Duplicate,
    /// The workspace does not exist or was deleted.
    NoWorkspace,
    /// A precondition does not hold: nothing was written.
    Precondition,
    /// A compaction that others overtook: nothing was written.
    Stale,
    /// A value or document over its limit: nothing was written.
    TooLarge,
    /// D1 failed or did not answer in time. The batch may have been committed.
    Unavailable(String),
}

/// A value to bind.
#[derive(Debug, Clone, Copy)]
pub enum Bind<'a> {
    /// SQL NULL.
    Null,
    /// An integer that JavaScript holds exactly: clocks and milliseconds do.
    Int(u64),
    /// Text.
    Text(&'a str),
}

impl From<Option<&'static str>> for Bind<'_> {
    fn from(text: Option<&'static str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

/// One statement of a batch.
#[derive(Debug)]
pub struct Statement<'a> {
    sql: String,
    binds: Vec<Bind<'a>>,
}

/// A statement with its values.
pub fn statement<'a>(sql: impl Into<String>, binds: impl Into<Vec<Bind<'a>>>) -> Statement<'a> {
    Statement { sql: sql.into(), binds: binds.into() }
}

impl Db {
    /// Wraps the binding.
    #[must_use]
    pub fn new(database: D1Database) -> Self {
        Self { database: std::rc::Rc::new(database) }
    }

    /// Runs statements as one transaction.
    pub async fn batch(&self, statements: Vec<Statement<'_>>) -> Result<Vec<D1Result>, DbError> {
        let prepared: Result<Vec<D1PreparedStatement>, Error> = statements
            .into_iter()
            .map(|statement| {
                let values: Vec<JsValue> = statement.binds.into_iter().map(js_value).collect();
                self.database.prepare(statement.sql).bind(&values)
            })
            .collect();
        let prepared = prepared.map_err(|error| classify(&error))?;
        let deadline = Delay::from(Duration::from_millis(D1_DEADLINE_MS));
        match select(Box::pin(self.database.batch(prepared)), deadline).await {
            Either::Left((result, _)) => result.map_err(|error| classify(&error)),
            Either::Right(_) => Err(DbError::Unavailable("D1 did not answer in time".to_owned())),
        }
    }
}

/// The rows of the `index`th statement of a batch.
pub fn rows<T: DeserializeOwned>(results: &[D1Result], index: usize) -> Result<Vec<T>, DbError> {
    let unreadable = || DbError::Unavailable("D1 answered with other columns than asked".to_owned());
    let result = results.get(index).ok_or_else(unreadable)?;
    result.results::<T>().map_err(|_| unreadable())
}

/// The first row of the `index`th statement of a batch.
pub fn row<T: DeserializeOwned>(results: &[D1Result], index: usize) -> Result<Option<T>, DbError> {
    Ok(rows(results, index)?.into_iter().next())
}

fn js_value(bind: Bind<'_>) -> JsValue {
    match bind {
        Bind::Null => JsValue::NULL,
        Bind::Int(number) => JsValue::from_f64(number as f64),
        Bind::Text(text) => JsValue::from_str(text),
    }
}

/// What D1's message means. Constraint messages come from SQLite and name the column.
fn classify(error: &Error) -> DbError {
    let message = error.to_string();
    let cause = match error {
        Error::D1(error) => error.cause(),
        _ => message,
    };
    let has = |text: &str| cause.contains(text);
    if has("UNIQUE constraint failed: change_log.workspace, change_log.op_key") {
        DbError::Duplicate
    } else if has("NOT NULL constraint failed: change_log.kind") {
        DbError::NoWorkspace
    } else if has("NOT NULL constraint failed: change_log.path") {
        DbError::Precondition
    } else if has("NOT NULL constraint failed: nodes.base") {
        DbError::Stale
    } else if has("CHECK constraint failed") {
        DbError::TooLarge
    } else {
        DbError::Unavailable(cause)
    }
}

/// How long D1 may take. It stalls for a minute now and then; a caller gets 503 instead of waiting.
const D1_DEADLINE_MS: u64 = 8_000;
