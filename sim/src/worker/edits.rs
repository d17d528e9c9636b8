//! Edits without Yjs: `edge::edits` and what it has the second module do.

use super::{Handler, Response};
use crate::api::edit::{Base, encode_vector, parse_edits, refused};
use crate::api::problem::{Problem, ProblemCode};
use crate::bus::Ask;
use crate::d1::WORKSPACE;
use crate::document::edit::edit;
use crate::edge::compaction;
use crate::edge::db::DbError;
use crate::edge::db::documents::Append;
use crate::edge::db::log::Guard;
use crate::room::Stored;

struct Edited {
    update: Vec<u8>,
    vector: String,
    only_appends: bool,
}

impl Handler<'_> {
    /// Reads, edits and appends on the condition that nothing came in between; again if it did.
    pub(super) async fn edit(&self, path: &str, body: &str) -> Result<Response, DbError> {
        for attempt in 0..MAX_ATTEMPTS {
            let Some(stored) = self.db.document(WORKSPACE, path, 0).await? else {
                return Err(DbError::NoWorkspace);
            };
            let edited = match self.make(&stored, body) {
                Ok(edited) => edited,
                Err(problem) => {
                    let refusal = Response::problem(problem.status(), "edit_refused");
                    return Ok(self.edited_before().await?.unwrap_or(refusal));
                }
            };
            if edited.update.is_empty() {
                let unchanged = Response { epoch: stored.epoch, ..Response::ok(stored.clock) };
                return Ok(self.edited_before().await?.unwrap_or(unchanged));
            }
            let guard = match stored.epoch {
                _ if edited.only_appends => None,
                Some(_) => Some(Guard::Clock(stored.clock)),
                None => Some(Guard::Missing),
            };
            let wanted = self.appending(path, &edited.update, stored.epoch, None, false);
            let append = Append { guard, vector: Some(&edited.vector), ..wanted };
            match compaction::append(&self.keyed(), &append).await {
                Ok(saved) => {
                    self.told(&append, &saved);
                    return Ok(Response { epoch: Some(saved.epoch), ..Response::ok(saved.clock) });
                }
                Err(DbError::Duplicate | DbError::Precondition) => {
                    if let Some(answer) = self.edited_before().await? {
                        return Ok(answer);
                    }
                }
                Err(error) => return Err(error),
            }
            let wait = self.bus.chance() % (20 << attempt);
            self.bus.ask(|waiter| Ask::Sleep(wait, waiter)).await;
        }
        Ok(Response::problem(503, "storage_unavailable"))
    }

    fn make(&self, stored: &Stored, body: &str) -> Result<Edited, Problem> {
        let wanted = parse_edits(body.as_bytes())?;
        let parts: Vec<&[u8]> = stored.updates.iter().map(Vec::as_slice).collect();
        if let Some(Base::Clock(base)) = wanted.base
            && base != stored.clock
        {
            return Err(Problem::new(ProblemCode::StaleBase));
        }
        let client = self.bus.chance() % (1 << 32);
        let made = edit(&parts, &[(&wanted.root, &wanted.edits)], client).map_err(|error| refused(&error))?;
        Ok(Edited {
            update: if made.is_empty() { Vec::new() } else { made.update.clone() },
            vector: encode_vector(&made.vector),
            only_appends: wanted.only_appends() && wanted.base.is_none(),
        })
    }

    /// The first answer to the key, if it was used.
    async fn edited_before(&self) -> Result<Option<Response>, DbError> {
        Ok(self.replay(1).await?.map(|first| match first.op_hash == self.hash {
            true => Response { epoch: Some(first.epoch), ..Response::ok(first.clock) },
            false => Response::problem(422, "idempotency_key_reused"),
        }))
    }
}

/// As `edge::edits::MAX_ATTEMPTS`.
const MAX_ATTEMPTS: u32 = 6;
