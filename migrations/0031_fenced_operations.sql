-- A fenced operation fails only by evidence that its request can pay no more: `findTransitionError` in the code. Any other answer may be
-- from before the last fence, or about its order. A person ends it only after the fence: its order may leave until then.

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
    -- Also if the fence ended earlier without proof: its order may have arrived after an earlier answer. The clock of a person may be
    -- ahead by a minute.
    WHEN 'operator' THEN OLD.fencing_until <= now()
      AND (NEW.state = 'succeeded' OR (evidence ->> 'asked_at')::timestamptz >= OLD.fencing_until + interval '1 minute')
    -- The provider has named the order that has the key.
    ELSE NEW.state = 'succeeded' OR OLD.acknowledged END;
BEGIN
  IF proves IS NOT TRUE THEN
    RAISE EXCEPTION 'operation % fails only by its fence, or by an answer to a person who asked a minute or more after the end of its last fence at %',
      OLD.id, OLD.fencing_until
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_evidence_unfenced BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.fence_started_at IS NOT NULL AND NEW.state <> OLD.state AND NEW.state IN ('succeeded', 'failed'))
  EXECUTE FUNCTION operations_evidence_unfenced();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_evidence_unfenced;
