-- The keys that seal page tokens and change tokens. All processes of the ledger share them, so they need no setting. The newest
-- key seals, and each key opens. The owner rotates them: INSERT INTO token_keys DEFAULT VALUES. Without the row of an old key,
-- the tokens that it sealed are refused.
CREATE TABLE token_keys (
  -- A token names its key by the first four bytes.
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  -- 366 bits of PostgreSQL's strong random source.
  key bytea NOT NULL CHECK (octet_length(key) = 32)
    DEFAULT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO token_keys DEFAULT VALUES;
