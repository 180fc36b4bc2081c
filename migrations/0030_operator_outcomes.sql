-- A person ends an operation that may have been sent only by the answer of its provider: `findTransitionError` in the code. The rule for
-- `indeterminate` is older. Workers end operations by other evidence.

-- The cancellation of a returned claim, which sent nothing, needs no answer: operations_unsent has its rule.
CREATE TRIGGER operations_evidence_outcome BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.state IN ('submitting', 'submitted') AND NEW.state IN ('succeeded', 'failed')
    AND (OLD.return_reason IS NULL OR NEW.failure_code IS DISTINCT FROM 'cancelled_unsent')
    AND NEW.evidence::text LIKE '%"operator"%')
  EXECUTE FUNCTION operations_evidence();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_evidence_outcome;

-- After operations_evidence_outcome, which checks the form.
CREATE FUNCTION operations_evidence_sendable() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- See operations_evidence() for the characters.
  evidence json := regexp_replace(NEW.evidence::text, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'gi');
BEGIN
  -- The clock of a person may differ by a minute: see operations_evidence_time().
  IF evidence ->> 'by' = 'operator' AND (evidence ->> 'asked_at')::timestamptz < OLD.send_before + interval '1 minute' THEN
    RAISE EXCEPTION 'an operator records no failure of operation % by an answer from before %', OLD.id, OLD.send_before
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_evidence_sendable BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.state IN ('submitting', 'submitted') AND NEW.state = 'failed' AND OLD.return_reason IS NULL
    AND OLD.send_before IS NOT NULL AND NEW.evidence::text LIKE '%"operator"%')
  EXECUTE FUNCTION operations_evidence_sendable();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_evidence_sendable;
