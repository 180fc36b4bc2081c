-- The keys that seal page tokens and change tokens. All processes of the ledger share them, so they need no setting. The owner
-- rotates them: INSERT INTO token_keys DEFAULT VALUES. The tokens of a key end when its row is deleted.
CREATE TABLE token_keys (
  -- 366 bits of PostgreSQL's strong random source.
  key bytea PRIMARY KEY CHECK (octet_length(key) = 32)
    DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO token_keys DEFAULT VALUES;
