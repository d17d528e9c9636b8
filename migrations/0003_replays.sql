-- What a replay needs to give the first answer again (R1).

-- Creating a workspace writes no change, so its key stands with the workspace, and lives as long.
ALTER TABLE workspaces ADD COLUMN create_key TEXT;   -- hash of the idempotency key and its scope
ALTER TABLE workspaces ADD COLUMN create_hash TEXT;  -- hash of the request that used the key

CREATE UNIQUE INDEX workspaces_create_key ON workspaces (create_key) WHERE create_key IS NOT NULL;
