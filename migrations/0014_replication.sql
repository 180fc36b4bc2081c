-- Confirmed statements (DATABASE_SYNCHRONOUS=required): proof that synchronous standbys have all that a session has seen.

-- Whether the synchronous standbys have flushed the WAL up to a position. Every one of a priority list (FIRST), or as many of a quorum
-- as it asks for (ANY). Null: there is no synchronous standby, or another one than `synchronous_standby_names` asks for.
-- It has the rights of its owner, so that no other role sees the sessions of `pg_stat_replication`.
CREATE FUNCTION is_replicated(p_position pg_lsn) RETURNS boolean
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  names text := current_setting('synchronous_standby_names');
  wanted integer := coalesce(substring(names FROM '(?i)^\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(')::integer, 1);
  flushed integer;
BEGIN
  IF NOT pg_has_role('pg_read_all_stats', 'USAGE') THEN
    RAISE insufficient_privilege USING MESSAGE =
      format('DATABASE_SYNCHRONOUS=required needs: GRANT pg_read_all_stats TO %I', current_user);
  END IF;
  SELECT count(*) FILTER (WHERE flush_lsn >= p_position) INTO flushed
  FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')
  HAVING count(*) >= wanted;
  RETURN flushed >= wanted;
END
$$;

-- Says whether the standbys have all that this session has seen. The message is a write that begins after that, and its commit waits
-- for them. A primary with a successor gets no answer, because its standbys follow that one. The position tells the truth even
-- if the wait was cancelled, or the names were emptied. Null: see `is_replicated`. `statement_timeout` bounds the wait.
CREATE PROCEDURE confirm_replication(INOUT confirmed boolean DEFAULT NULL)
  LANGUAGE plpgsql AS $$
DECLARE
  message pg_lsn;
BEGIN
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  message := pg_logical_emit_message(true, 'financial-agents-gateway', '');
  COMMIT;
  confirmed := is_replicated(message);
END
$$;

REVOKE ALL ON FUNCTION is_replicated(pg_lsn) FROM PUBLIC;
