-- A limit counts money that left: also that of an operation that ended as failed or cancelled, once its provider has proved otherwise
-- (0042_late_proofs.sql). `reservationsOf` has the same rule for the ledger in memory.

ALTER TABLE operation_reversals
  -- The grant whose limits count the operation again. Null: they count it already, or never did. No role of the gateway may set it.
  ADD COLUMN limited_grant uuid;
CREATE INDEX operation_reversals_limited ON operation_reversals (limited_grant, client_id) WHERE limited_grant IS NOT NULL;

-- Both states are final, hence the value holds for ever.
CREATE FUNCTION operation_reversals_limited() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  NEW.limited_grant := (
    SELECT o.grant_id FROM operations o
    WHERE o.id = NEW.operation_id AND o.client_id = NEW.client_id AND o.limit_amount IS NOT NULL AND o.state IN ('failed', 'cancelled')
  );
  RETURN NEW;
END $$;

-- The function finds the table in the present schema, not by the search path of the caller.
DO $path$
BEGIN
  EXECUTE format('ALTER FUNCTION operation_reversals_limited() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $path$;

CREATE TRIGGER operation_reversals_limited BEFORE INSERT ON operation_reversals
  FOR EACH ROW EXECUTE FUNCTION operation_reversals_limited();
ALTER TABLE operation_reversals ENABLE ALWAYS TRIGGER operation_reversals_limited;

-- limit_left of 0034_limits.sql counts by state, and its callers find this one under its name. VOLATILE for the same reason.
ALTER FUNCTION limit_left(jsonb, jsonb, uuid, text, timestamptz) RENAME TO limit_left_by_state;

CREATE FUNCTION limit_left_by_proof(p_limit jsonb, p_types jsonb, p_grant uuid, p_client text, p_at timestamptz) RETURNS numeric
  LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_left numeric := limit_left_by_state(p_limit, p_types, p_grant, p_client, p_at);
  v_currency text := p_limit ->> 'currency';
  v_since timestamptz;
BEGIN
  IF NOT p_limit ? 'per' THEN
    RETURN v_left;
  END IF;
  v_since := limit_since(p_limit, p_at);
  SELECT v_left - coalesce(sum(o.limit_amount), 0) INTO v_left
  FROM operation_reversals r JOIN operations o ON o.id = r.operation_id AND o.client_id = r.client_id
  WHERE r.limited_grant = p_grant AND r.client_id = p_client AND o.limit_currency = v_currency AND o.created_at >= v_since
    AND (p_types IS NULL OR p_types ? o.type);
  RETURN v_left;
END $$;

ALTER FUNCTION limit_left_by_proof(jsonb, jsonb, uuid, text, timestamptz) RENAME TO limit_left;
