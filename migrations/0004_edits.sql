-- What a replay of edits needs to give the first answer again (R1): the state vector in base64url that
-- the document had with the edits. NULL for everything else.

ALTER TABLE change_log ADD COLUMN vector TEXT;
