-- The place of the ledger: its cluster, its database and the timeline of the cluster. Workers claim nothing in another
-- place, because a restored ledger may have forgotten claims, and a copy must not submit what the original submits.

CREATE TABLE ledger_home (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  system_identifier bigint NOT NULL,
  database oid NOT NULL,
  -- The change position of a transaction is its id plus this number: see 0010_change_feed.sql.
  change_offset bigint NOT NULL DEFAULT 0,
  -- Changes with the home, and when an operator holds all operations because the server was put back to an earlier state.
  history uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO ledger_home (system_identifier, database)
  SELECT s.system_identifier, d.oid FROM pg_control_system() s, pg_database d WHERE d.datname = current_database();

-- The current timeline, from 1. It grows with each promotion and each point-in-time recovery. The function reads it from
-- the WAL, because the control file lags behind a promotion until the next checkpoint.
CREATE FUNCTION ledger_timeline() RETURNS integer
  LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer
$$;
