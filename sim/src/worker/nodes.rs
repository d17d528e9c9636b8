//! Records: `edge::nodes` and `edge::moves`.

use super::{Handler, Response};
use crate::api::op::{Op, OpAction};
use crate::api::precondition::Precondition;
use crate::d1::WORKSPACE;
use crate::edge::clock;
use crate::edge::db::DbError;
use crate::edge::db::log::{Entry, Guard};
use crate::edge::db::nodes::{NodeOp, Write};
use crate::protocol::change::ChangeKind;

impl Handler<'_> {
    /// `edge::nodes::{write, apply}`.
    pub(super) async fn mutate(&self, ops: &[Op]) -> Result<Response, DbError> {
        let values: Vec<String> = ops.iter().map(|op| value_of(&op.action)).collect();
        let named = ops.iter().zip(&values).enumerate();
        let statements: Vec<NodeOp<'_>> =
            named.map(|(index, (op, value))| self.node_op(index, op, value)).collect();
        let count = ops.len() as u64;
        match self.keyed().mutate(WORKSPACE, &statements).await {
            Ok(committed) => {
                let named = ops.iter().zip(&committed.appended);
                let changes =
                    named.map(|(op, appended)| self.change(appended.clock, op.kind(), op.path.as_str()));
                self.announce(changes.collect(), committed.live_until);
                Ok(Self::written(committed.appended.first().map_or(0, |appended| appended.clock), count))
            }
            Err(DbError::Duplicate | DbError::Precondition) => match self.replay(count).await? {
                Some(first) if first.op_hash == self.hash => Ok(Self::written(first.clock, count)),
                Some(_) => Ok(Response::problem(422, "idempotency_key_reused")),
                None => Ok(Response::problem(412, "precondition_failed")),
            },
            Err(error) => Err(error),
        }
    }

    fn node_op<'b>(&'b self, index: usize, op: &'b Op, value: &'b str) -> NodeOp<'b> {
        let write = match op.action {
            OpAction::Delete => Write::Delete,
            OpAction::Patch(_) => Write::Patch(value),
            OpAction::Put(_) => Write::Put(value),
        };
        // The key stands in the first row; the rows of a batch follow one another.
        let key = self.op().filter(|_| index == 0);
        NodeOp::new(
            self.entry(op.kind(), op.path.as_str(), key),
            Guard::of(op.precondition).into_iter().collect(),
            write,
        )
    }

    fn entry<'b>(&'b self, kind: ChangeKind, path: &'b str, op: Option<(&'b str, &'b str)>) -> Entry<'b> {
        Entry { workspace: WORKSPACE, kind, path, actor: self.actor, at: clock::now(), op, vector: None }
    }

    fn written(first: u64, count: u64) -> Response {
        Response { clocks: (first..first + count).collect(), ..Response::ok(first + count - 1) }
    }

    /// `edge::moves::move_node`. The answer is the clock of the second of its two changes.
    pub(super) async fn rename(
        &self,
        from: &str,
        to: &str,
        precondition: Precondition,
    ) -> Result<Response, DbError> {
        let entry = self.entry(ChangeKind::Move, from, self.op());
        match self.keyed().rename(entry, to, Guard::of(precondition)).await {
            Ok((clock, live_until)) => {
                let leaves = self.change(clock - 1, ChangeKind::Delete, from);
                self.announce(vec![leaves, self.change(clock, ChangeKind::Move, to)], live_until);
                Ok(Self::written(clock - 1, 2))
            }
            Err(DbError::Duplicate | DbError::Precondition) => match self.replay(2).await? {
                Some(first) if first.op_hash == self.hash => Ok(Self::written(first.clock, 2)),
                Some(_) => Ok(Response::problem(422, "idempotency_key_reused")),
                None => Ok(Response::problem(412, "precondition_failed")),
            },
            Err(error) => Err(error),
        }
    }

    pub(super) async fn read_node(&self, path: &str) -> Result<Response, DbError> {
        match self.db.node(WORKSPACE, path).await? {
            Some(Some(node)) => {
                Ok(Response { value: node.value.unwrap_or_default(), ..Response::ok(node.clock) })
            }
            Some(None) => Ok(Response::problem(404, "node_not_found")),
            None => Err(DbError::NoWorkspace),
        }
    }
}

fn value_of(action: &OpAction) -> String {
    match action {
        OpAction::Delete => String::new(),
        OpAction::Patch(value) | OpAction::Put(value) => value.to_string(),
    }
}
