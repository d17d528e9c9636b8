-- What is read of a database of yrelay to judge it, by read-database.mjs and by the simulator. Each statement has
-- its name on the line before it.

-- name: workspaces
SELECT w.id, w.deleted_at IS NOT NULL AS deleted, COUNT(c.clock) AS changes,
       MIN(c.clock) AS first, MAX(c.clock) AS head,
       SUM(c.kind = 'delete_workspace') AS deletions
FROM workspaces w LEFT JOIN change_log c ON c.workspace = w.id GROUP BY w.id ORDER BY w.id

-- name: gaps
SELECT workspace, clock, before FROM (
  SELECT workspace, clock, LAG(clock) OVER (PARTITION BY workspace ORDER BY clock) AS before FROM change_log)
WHERE clock <> before + 1

-- name: kinds
SELECT workspace, kind, MIN(clock) AS clock, COUNT(*) AS count FROM change_log GROUP BY workspace, kind

-- The change at a node's clock, and at its epoch: NULL when the log no longer, or never, had it.
-- name: nodes
SELECT n.workspace, n.path, n.kind, n.value, n.clock, n.epoch, n.base, n.parts, n.size,
       own.path AS changePath, began.kind AS epochKind, began.created AS epochCreated
FROM nodes n
LEFT JOIN change_log own ON own.workspace = n.workspace AND own.clock = n.clock
LEFT JOIN change_log began ON began.workspace = n.workspace AND began.clock = n.epoch
ORDER BY n.workspace, n.path

-- name: parts
SELECT clock, part, data FROM doc_updates WHERE workspace = ? AND path = ? ORDER BY clock, part

-- name: orphans of workspaces, in TABLE
SELECT workspace, COUNT(*) AS count FROM TABLE WHERE workspace NOT IN (SELECT id FROM workspaces) GROUP BY workspace

-- name: orphans of documents
SELECT u.workspace, u.path, COUNT(*) AS count FROM doc_updates u
LEFT JOIN nodes n ON n.workspace = u.workspace AND n.path = u.path AND n.kind = 'document'
WHERE n.path IS NULL GROUP BY u.workspace, u.path
