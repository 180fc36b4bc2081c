-- A dump that is restored into its own database, such as by pg_restore --clean, forgets claims as any other backup does, and brings the row of
-- the home back with it. But its tables are new ones. So the table of the operations is a part of the home.

-- The number, not regclass: a dump has the name of that, which would be the number of the new table after the restore.
ALTER TABLE ledger_home ADD COLUMN operations_oid oid;
-- A dump of an earlier version has no column, so its restore into the same database is not noticed: docs/cluster.md.
UPDATE ledger_home SET operations_oid = 'operations'::regclass::oid;
ALTER TABLE ledger_home ALTER COLUMN operations_oid SET NOT NULL;

-- The function of 0020_unsent_operations.sql, with the table. Its callers find this one under its name.
DROP FUNCTION is_present_ledger(integer);
CREATE FUNCTION is_present_ledger_of_table(p_timeline integer) RETURNS boolean
  LANGUAGE sql VOLATILE AS $$
  SELECT p_timeline = ledger_timeline() AND EXISTS (
    SELECT FROM ledger_home h
    JOIN pg_control_system() s USING (system_identifier)
    JOIN pg_database d ON d.oid = h.database AND d.datname = current_database()
    WHERE h.operations_oid = 'operations'::regclass::oid AND (h.epoch IS NULL OR h.epoch_life = ledger_life())
  )
$$;
ALTER FUNCTION is_present_ledger_of_table(integer) RENAME TO is_present_ledger;

-- The function of 0015_witness.sql, with the table: the epoch of a restored ledger is not valid.
DROP FUNCTION ledger_life();
CREATE FUNCTION ledger_life_of_table() RETURNS text
  LANGUAGE sql VOLATILE AS $$
  SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || '-'
    || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || '-'
    || (SELECT oid FROM pg_database WHERE datname = current_database()) || '-' || 'operations'::regclass::oid
$$;
ALTER FUNCTION ledger_life_of_table() RENAME TO ledger_life;

-- The functions find the tables in the present schema, not by the search path of the caller.
DO $path$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['is_present_ledger(integer)', 'ledger_life()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f, current_schema());
  END LOOP;
END $path$;
