-- The whole schema: workspaces, their nodes, the updates of documents, and the log of changes.
--
-- Every table is WITHOUT ROWID: D1 bills rows written, and a text key on a rowid table costs two.
-- A mutation is one batch. It begins with the insert into change_log, whose NOT NULL columns double
-- as guards: the statement puts NULL there when the workspace is gone (kind) or a precondition does
-- not hold (path), and the whole batch is undone.

CREATE TABLE workspaces (
  id TEXT NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL,           -- milliseconds
  deleted_at INTEGER,                    -- soft delete; NULL while it lives
  live_until INTEGER NOT NULL DEFAULT 0  -- listener lease (R3): until then the room is told of changes
) WITHOUT ROWID;

CREATE TABLE nodes (
  workspace TEXT NOT NULL,
  path TEXT NOT NULL,
  kind TEXT NOT NULL,                    -- 'record' or 'document'
  value TEXT,                            -- JSON of a record
  clock INTEGER NOT NULL,                -- of its newest change; the ETag
  updated_at INTEGER NOT NULL,
  epoch INTEGER NOT NULL DEFAULT 0,      -- document: voids copies of older content (W11)
  base INTEGER NOT NULL DEFAULT 0,       -- document: clock up to which it is compacted
  fence INTEGER NOT NULL DEFAULT 0,      -- document: largest fencing token that compacted it
  parts INTEGER NOT NULL DEFAULT 0,      -- document: rows in doc_updates
  size INTEGER NOT NULL DEFAULT 0,       -- document: bytes of its stored updates
  PRIMARY KEY (workspace, path),
  -- D1 takes 2,000,000 bytes a value and does not check it locally.
  CONSTRAINT value_size CHECK (value IS NULL OR length(CAST(value AS BLOB)) <= 1900000),
  CONSTRAINT document_size CHECK (size <= 16777216)
) WITHOUT ROWID;

-- Yjs updates in base64: D1 moves a BLOB as a JSON array of numbers, 3.6 characters a byte.
CREATE TABLE doc_updates (
  workspace TEXT NOT NULL,
  path TEXT NOT NULL,
  clock INTEGER NOT NULL,                -- of the change that appended it
  part INTEGER NOT NULL,                 -- chunks of one update, from 0
  data TEXT NOT NULL,
  PRIMARY KEY (workspace, path, clock, part)
) WITHOUT ROWID;

CREATE TABLE change_log (
  workspace TEXT NOT NULL,
  clock INTEGER NOT NULL,                -- MAX + 1 of the workspace: gapless (F1)
  kind TEXT NOT NULL,                    -- NULL would mean: the workspace is gone
  path TEXT NOT NULL,                    -- NULL would mean: a precondition does not hold
  actor TEXT NOT NULL,
  at INTEGER NOT NULL,
  op_key TEXT,                           -- hash of the idempotency key and its scope (R1)
  op_hash TEXT,                          -- hash of the request that used the key
  created INTEGER NOT NULL DEFAULT 0,    -- whether the op created its node: a replay says so again
  PRIMARY KEY (workspace, clock)
) WITHOUT ROWID;

CREATE UNIQUE INDEX change_log_op ON change_log (workspace, op_key) WHERE op_key IS NOT NULL;
