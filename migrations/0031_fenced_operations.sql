-- A fenced operation fails only by evidence that its request can pay no more: `findTransitionError` in the code. Any other answer may be
-- from before the fence, or about its order.

-- After operations_evidence, which checks the form, and before operations_transition, which moves the evidence to the history: PostgreSQL
-- fires triggers in the order of their names.
CREATE FUNCTION operations_evidence_unfenced() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- See operations_evidence() for the characters.
  evidence json := regexp_replace(NEW.evidence::text, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'gi');
  proves boolean := CASE evidence ->> 'by'
    WHEN 'fence' THEN NOT OLD.acknowledged AND evidence ->> 'fence_started_at'
      = to_char(OLD.fence_started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    -- A reader that has the operation may send the order of the fence until due_at, also if it stopped afterwards.
    WHEN 'operator' THEN (evidence ->> 'asked_at')::timestamptz >= OLD.fence_started_at
      AND (OLD.reading_since IS NULL
        OR OLD.due_at <= now() AND (evidence ->> 'asked_at')::timestamptz >= date_trunc('milliseconds', OLD.due_at))
    -- The provider has named the order that has the key.
    ELSE OLD.acknowledged END;
BEGIN
  IF proves IS NOT TRUE THEN
    RAISE EXCEPTION 'operation % fails only by its fence, or by an answer to a person from after % when it began and from after each fence', OLD.id,
      OLD.fence_started_at
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_evidence_unfenced BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.fence_started_at IS NOT NULL AND OLD.state <> 'failed' AND NEW.state = 'failed')
  EXECUTE FUNCTION operations_evidence_unfenced();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_evidence_unfenced;
