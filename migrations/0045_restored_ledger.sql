-- A dump that is restored into its own database, such as by pg_restore --clean, forgets claims as any other backup does, and brings the row of
-- the home back with it. But its tables are new ones. So the table of the operations is a part of the home.

-- The number, not regclass: a dump has the name of that, which would be the number of the new table after the restore.
ALTER TABLE ledger_home ADD COLUMN operations_oid oid;
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

-- The function finds the tables in the present schema, not by the search path of the caller.
DO $path$
BEGIN
  EXECUTE format('ALTER FUNCTION is_present_ledger(integer) SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $path$;
