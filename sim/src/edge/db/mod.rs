//! `edge::db` with SQLite in place of the D1 binding: the counterpart of its `mod.rs` and `d1.rs`.

#[path = "../../../../src/edge/db/documents.rs"]
pub mod documents;
#[path = "../../../../src/edge/db/error.rs"]
mod error;
#[path = "../../../../src/edge/db/log.rs"]
pub mod log;
#[path = "../../../../src/edge/db/nodes.rs"]
pub mod nodes;
#[path = "../../../../src/edge/db/statement.rs"]
mod statement;
#[path = "../../../../src/edge/db/workspaces.rs"]
pub mod workspaces;

use std::fmt;
use std::rc::Rc;

pub use crate::d1::{Results, Row};
pub use error::{DbError, NO_ANSWER};
use error::{classify, unreadable};
pub use statement::{Bind, Statement, statement};

use crate::bus::{Ask, Bus};
use crate::d1::{Sql, Value};

/// The database, reached through the world.
#[derive(Clone)]
pub struct Db {
    bus: Rc<Bus>,
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
        Self { bus }
    }

    /// Runs statements as one transaction, and returns the rows of each.
    pub async fn batch(&self, statements: Vec<Statement<'_>>) -> Result<Results, DbError> {
        let statements = statements
            .into_iter()
            .map(|statement| Sql {
                text: statement.sql,
                binds: statement.binds.into_iter().map(value).collect(),
            })
            .collect();
        self.bus.ask(|waiter| Ask::Batch(statements, waiter)).await.map_err(classify)
    }
}

fn value(bind: Bind<'_>) -> Value {
    match bind {
        Bind::Null => Value::Null,
        Bind::Int(number) => Value::Integer(number.cast_signed()),
        Bind::Text(text) => Value::Text(text.to_owned()),
    }
}
