//! `edge::db` with SQLite in place of the D1 binding: the counterpart of its `mod.rs` and `d1.rs`.

#[path = "../../../../src/edge/db/documents.rs"]
pub mod documents;
#[path = "../../../../src/edge/db/error.rs"]
mod error;
#[path = "../../../../src/edge/db/log.rs"]
pub mod log;
#[path = "../../../../src/edge/db/nodes.rs"]
pub mod nodes;
#[path = "../../../../src/edge/db/retry.rs"]
mod retry;
#[path = "../../../../src/edge/db/statement.rs"]
mod statement;
#[path = "../../../../src/edge/db/workspaces.rs"]
pub mod workspaces;

use std::fmt;
use std::rc::Rc;

pub use crate::d1::{Results, Row};
pub use error::{DbError, NO_ANSWER};
use error::{classify, unreadable};
use retry::{pause_ms, retried};
pub use statement::{Bind, Statement, statement};

use crate::bus::{Ask, Bus};
use crate::d1::{Sql, Value};

/// The database, reached through the world.
#[derive(Clone)]
pub struct Db {
    bus: Rc<Bus>,
    is_keyed: bool,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Db")
    }
}

impl Db {
    /// The database of a world.
    #[must_use]
    pub fn new(bus: Rc<Bus>) -> Self {
        Self { bus, is_keyed: false }
    }

    /// The same database for what a key makes harmless to do twice, if there is one.
    #[must_use]
    pub fn keyed(&self, is_keyed: bool) -> Self {
        Self { is_keyed, ..self.clone() }
    }

    /// Runs statements as one transaction, and returns the rows of each.
    pub async fn batch(&self, statements: Vec<Statement<'_>>) -> Result<Results, DbError> {
        let statements: Vec<Sql> = statements
            .into_iter()
            .map(|statement| Sql {
                text: statement.sql,
                binds: statement.binds.into_iter().map(value).collect(),
            })
            .collect();
        let run = || {
            let answer = self.bus.ask(|waiter| Ask::Batch(statements.clone(), waiter));
            async { answer.await.map_err(classify) }
        };
        retried(self.is_keyed, run, |attempt, _| self.pause(attempt)).await
    }

    /// Without a draw: how long D1 takes is drawn already.
    async fn pause(&self, attempt: u32) {
        self.bus.ask(|waiter| Ask::Sleep(pause_ms(attempt, 1.0), waiter)).await;
    }
}

fn value(bind: Bind<'_>) -> Value {
    match bind {
        Bind::Null => Value::Null,
        Bind::Int(number) => Value::Integer(number.cast_signed()),
        Bind::Text(text) => Value::Text(text.to_owned()),
    }
}
