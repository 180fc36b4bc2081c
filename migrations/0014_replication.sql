-- Confirmed statements (DATABASE_SYNCHRONOUS=required): proof that the synchronous standby has all that a session has seen.

-- Why the synchronous standbys may lack the WAL up to a position. Null: all of them have flushed it.
--
-- Every standby of `synchronous_standby_names` must have it. With a shorter choice, such as ANY 1 (a, b), one of them could be
-- promoted while the other one still confirms what the old primary shows. A standby must be named, because any program that
-- receives WAL counts as `*`, such as a backup under way. The function has the rights of its owner, so that no other role sees the
-- sessions of `pg_stat_replication`.
CREATE FUNCTION replication_gap(p_position pg_lsn) RETURNS text
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  names text := current_setting('synchronous_standby_names');
  -- 'FIRST 2 (a, b)' has the parts 2 and 'a, b'; 'a' has the second one alone.
  parts text[] := regexp_match(names, '^\s*(?:(?:first|any)\s+)?(\d+)\s*\((.*)\)\s*$', 'i');
  listed text := coalesce(parts[2], names);
  -- A comma inside a quoted name makes this too large, and then nothing is confirmed.
  wanted integer := cardinality(string_to_array(listed, ','));
  flushed integer;
BEGIN
  IF NOT pg_has_role('pg_read_all_stats', 'USAGE') THEN
    RAISE insufficient_privilege USING MESSAGE =
      format('DATABASE_SYNCHRONOUS=required needs: GRANT pg_read_all_stats TO %I', current_user);
  END IF;
  IF trim(listed) = '' THEN
    RETURN 'synchronous_standby_names is empty';
  ELSIF listed LIKE '%*%' THEN
    RETURN 'synchronous_standby_names has *, and names no standby';
  ELSIF coalesce(parts[1]::integer, 1) <> wanted THEN
    RETURN 'synchronous_standby_names waits for fewer standbys than it names';
  END IF;
  -- The function behind pg_stat_replication: the view also joins the sessions, and takes four times as long.
  SELECT count(*) INTO flushed
  FROM pg_stat_get_wal_senders() WHERE sync_state IN ('sync', 'quorum') AND flush_lsn >= p_position;
  IF flushed < wanted THEN
    RETURN 'a synchronous standby does not have it';
  END IF;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION replication_gap(pg_lsn) FROM PUBLIC;

-- Says why the standbys may lack something that this session has seen. Null: they have it. The message is a write that begins after
-- that, and its commit waits for them. Standbys that follow a successor of this primary do not answer it. The position tells the
-- truth even if the wait was cancelled, or the names were emptied. `statement_timeout` bounds the wait.
CREATE PROCEDURE confirm_replication(INOUT gap text DEFAULT NULL)
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
  message := pg_logical_emit_message(true, 'financial-agents-gateway', '');
  COMMIT;
  gap := replication_gap(message);
END
$$;
