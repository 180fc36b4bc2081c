-- Roles may not write messages of any size into the WAL (`roles create` revokes it). A confirmation writes an empty one, with the
-- rights of the owner.

-- Writes the message of a confirmation. Returns its position.
CREATE FUNCTION write_confirmation() RETURNS pg_lsn
  LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_logical_emit_message(true, 'financial-agents-gateway', '')
$$;
REVOKE ALL ON FUNCTION write_confirmation() FROM PUBLIC;

-- As in 0014_replication.sql, with that message.
CREATE OR REPLACE PROCEDURE confirm_replication(INOUT gap text DEFAULT NULL)
  LANGUAGE plpgsql AS $$
DECLARE
  message pg_lsn;
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE object_not_in_prerequisite_state USING MESSAGE = 'the server is in recovery';
  END IF;
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  message := write_confirmation();
  COMMIT;
  gap := replication_gap(message);
END
$$;
