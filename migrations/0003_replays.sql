-- What a replay needs to give the first answer again (R1).

-- Creating a workspace writes no change, so its key stands with the workspace, and lives as long.
ALTER TABLE workspaces ADD COLUMN create_key TEXT;   -- hash of the idempotency key and its scope
ALTER TABLE workspaces ADD COLUMN create_hash TEXT;  -- hash of the request that used the key

CREATE UNIQUE INDEX workspaces_create_key ON workspaces (create_key) WHERE create_key IS NOT NULL;

-- The epoch that a document had when an update with a key was added; NULL when the update made the
-- document, whose epoch is that clock. The document's epoch today may be another.
ALTER TABLE change_log ADD COLUMN epoch INTEGER;
