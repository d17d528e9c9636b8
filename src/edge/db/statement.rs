//! A statement with the values that it binds.

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

/// One statement of a batch.
#[derive(Debug)]
pub struct Statement<'a> {
    pub(super) sql: String,
    pub(super) binds: Vec<Bind<'a>>,
}

/// A statement with its values.
pub fn statement<'a>(sql: impl Into<String>, binds: impl Into<Vec<Bind<'a>>>) -> Statement<'a> {
    Statement { sql: sql.into(), binds: binds.into() }
}
