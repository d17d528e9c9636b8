-- What peers tell each other to connect directly, for a minute. `id` grows within a peer's inbox: it is
-- the time in milliseconds, or one more than the newest, so that a cursor stays good when all rows went.

CREATE TABLE signals (
  workspace TEXT NOT NULL,
  peer TEXT NOT NULL,           -- whose inbox: an opaque id that the peer chose
  id INTEGER NOT NULL,
  topic TEXT NOT NULL,
  sender TEXT NOT NULL,         -- the peer id that the sender states
  sub TEXT NOT NULL,            -- who sent it, by the token
  data TEXT NOT NULL,           -- JSON
  expires_at INTEGER NOT NULL,  -- milliseconds
  PRIMARY KEY (workspace, peer, id)
) WITHOUT ROWID;
