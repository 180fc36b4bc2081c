-- The witness: which claim batches of which worker the ledger has. An independent store has the last batch that each worker may
-- have sent. After a failover the two are compared: see docs/postgresql.md.

-- One life of one server on one timeline, for one database. Within a life the write-ahead log is linear: a commit that is there proves every earlier
-- one. A promotion, a restart and a restored copy each begin a new life. Fails in recovery.
CREATE FUNCTION ledger_life() RETURNS text
  LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || '-'
    || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || '-'
    || (SELECT oid FROM pg_database WHERE datname = current_database())
$$;

ALTER TABLE ledger_home
  -- What the witness must have for a worker to send. Null: the ledger has no witness.
  ADD COLUMN epoch uuid,
  -- The life in which the epoch was set, and the only one in which it is valid.
  ADD COLUMN epoch_life text,
  ADD COLUMN epoch_at timestamptz,
  -- When the ledger got its witness.
  ADD COLUMN witnessed_since timestamptz,
  -- Every claim without a witness that began before that has ended.
  ADD COLUMN is_witness_settled boolean NOT NULL DEFAULT false,
  -- The comparison proved that no sent claim was lost, and the witness must still hear of it before the release.
  ADD COLUMN is_release_due boolean NOT NULL DEFAULT false;

-- One row for each worker process, life and provider: the number of its last claim batch. The statement that claims counts it up.
-- The lock of the row gives the numbers the order of the commits. A verification adds a row for its epoch, without a provider.
CREATE TABLE claim_batches (
  worker uuid NOT NULL,
  life text NOT NULL,
  provider text NOT NULL,
  batch bigint NOT NULL CHECK (batch > 0),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (worker, life, provider)
) WITH (fillfactor = 20);

-- One row for each comparison with the witness.
CREATE TABLE witness_checks (
  epoch uuid PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  life text NOT NULL,
  result text NOT NULL CHECK (result IN ('begun', 'proven', 'unsettled', 'missing', 'unprovable')),
  released integer NOT NULL DEFAULT 0 CHECK (released >= 0),
  held integer NOT NULL CHECK (held >= 0),
  -- The batches that the witness has and the ledger lacks: worker, life, provider, batch, and the number in the ledger.
  missing jsonb NOT NULL DEFAULT '[]'
);
CREATE INDEX witness_checks_by_time ON witness_checks (at);
