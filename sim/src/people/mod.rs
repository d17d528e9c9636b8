//! Who uses the system: people with documents, agents, and readers of the feed.

pub mod access;
pub mod agent;
pub mod edits;
pub mod human;
pub mod reader;
pub mod receipts;
pub mod records;
pub mod records_model;
pub mod removals;
pub mod replica;
pub mod walker;
