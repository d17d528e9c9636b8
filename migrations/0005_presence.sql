-- Who is in a workspace, as each says of itself. A row counts until `expires_at`; it goes with a later
-- write of its workspace or with the hourly sweep. There is no index by time: it would cost a second
-- written row for each call, and the sweep reads the table once an hour.

CREATE TABLE presence (
  workspace TEXT NOT NULL,
  sub TEXT NOT NULL,            -- who, and `kind`: by the token, never by the body
  kind TEXT NOT NULL,           -- 'human', 'agent' or 'service'
  session TEXT NOT NULL,        -- a tab or a process, as its client names it
  state TEXT,                   -- a JSON object, NULL without one
  expires_at INTEGER NOT NULL,  -- milliseconds
  PRIMARY KEY (workspace, sub, kind, session)
) WITHOUT ROWID;
