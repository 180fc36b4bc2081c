-- The payloads of unsettled operations, for the submission worker alone: no read of the gateway touches this table. The
-- transition that settles an operation erases its payload.

CREATE TABLE operation_payloads (
  operation_id uuid NOT NULL,
  client_id text NOT NULL,
  -- Canonical JSON (RFC 8785) in UTF-8, encrypted where key_id names a key. request_digest of the operation is the digest
  -- of its type and of the canonical JSON. The limit is 256 KiB and what encryption adds, because a claim reads many
  -- payloads at once.
  payload bytea NOT NULL CHECK (octet_length(payload) <= 262172),
  -- The name of the key that encrypts the payload. Null: plain text.
  key_id text CHECK (key_id ~ '^[A-Za-z0-9._~-]{1,80}$'),
  PRIMARY KEY (operation_id, client_id),
  FOREIGN KEY (operation_id, client_id) REFERENCES operations (id, client_id)
);

-- Refuses a DELETE that no trigger makes, also to the owner of the table: see operation_history_guard.
CREATE TRIGGER operation_payloads_guard BEFORE DELETE ON operation_payloads
  FOR EACH STATEMENT WHEN (pg_trigger_depth() < 1)
  EXECUTE FUNCTION refuse_statement('the end of an operation erases its payload');
CREATE TRIGGER operation_payloads_permanent BEFORE UPDATE OR TRUNCATE ON operation_payloads
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('the submitted payload is the accepted payload');
ALTER TABLE operation_payloads ENABLE ALWAYS TRIGGER operation_payloads_guard;
ALTER TABLE operation_payloads ENABLE ALWAYS TRIGGER operation_payloads_permanent;

-- The payloads of these operations. The statements of the queue call it instead of a join: the table is as small as the queue, and
-- PostgreSQL keeps plans. A plan from the time when the table was almost empty would read all payloads of a long queue.
CREATE FUNCTION payloads_of(p_ids uuid[]) RETURNS SETOF operation_payloads
  LANGUAGE plpgsql STABLE ROWS 10 SET enable_seqscan = off AS $$
BEGIN
  RETURN QUERY SELECT * FROM operation_payloads WHERE operation_id = ANY (p_ids);
END $$;
DO $path$
BEGIN
  EXECUTE format('ALTER FUNCTION payloads_of SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $path$;
