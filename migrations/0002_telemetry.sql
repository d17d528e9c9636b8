-- What clients report of their relays: which they left, for which, and when all of them failed.
-- Labels only, never an address or a token (A3). Rows go after seven days.

CREATE TABLE telemetry (
  received INTEGER NOT NULL,  -- milliseconds, by the Worker's clock: windows and the sweep count by it
  id TEXT NOT NULL,           -- of the request, by chance
  part INTEGER NOT NULL,      -- place in the request
  name TEXT NOT NULL,         -- 'relay_advance' or 'relay_cycle_all_failed'
  at INTEGER NOT NULL,        -- milliseconds, by the client's clock, never after `received`
  from_label TEXT,            -- relay_advance: the relay that was left
  to_label TEXT,              -- relay_advance: the relay that is next
  trigger TEXT,               -- relay_advance: why
  labels TEXT,                -- relay_cycle_all_failed: all that failed, separated by commas
  workspace TEXT,             -- as the client says; NULL when it does not
  PRIMARY KEY (received, id, part)
) WITHOUT ROWID;
