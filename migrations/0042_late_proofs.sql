-- A person records no failure while an answer of the provider may come, and proof that comes after a final state is kept. The code has the
-- same rules: `validateAskedAt`, `findTransitionError` and `contradicts`.

-- After operations_evidence_time, which permits a difference of a minute between clocks, and before operations_transition.
CREATE FUNCTION operations_evidence_unanswered() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- See operations_evidence() for the characters.
  evidence json := regexp_replace(NEW.evidence::text, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'gi');
BEGIN
  IF evidence ->> 'by' IS DISTINCT FROM 'operator' THEN
    RETURN NEW;
  END IF;
  -- A claim that is not stale: its worker may wait for the answer. A claim by hand has no send_before, and no holder. A move to
  -- `indeterminate` would forget when the claim is stale.
  IF OLD.state = 'submitting' AND OLD.return_reason IS NULL AND OLD.send_before IS NOT NULL AND OLD.due_at > clock_timestamp() THEN
    RAISE EXCEPTION 'an operator ends no claim of operation % before %: its worker may wait for the answer', OLD.id, OLD.due_at
      USING ERRCODE = 'restrict_violation';
  END IF;
  -- Otherwise an answer from before the last send would be dated after it. operations_evidence_time checks the form.
  IF NEW.state = 'failed' AND evidence ->> 'asked_at' ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$' THEN
    IF (evidence ->> 'asked_at')::timestamptz > clock_timestamp() THEN
      RAISE EXCEPTION 'an operator records no failure of operation % by an answer of %, which is in the future', OLD.id,
        evidence ->> 'asked_at' USING ERRCODE = 'restrict_violation';
    END IF;
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_evidence_unanswered BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (NEW.state <> OLD.state AND NEW.state IN ('failed', 'indeterminate')
    AND NEW.evidence::text LIKE '%"operator"%')
  EXECUTE FUNCTION operations_evidence_unanswered();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_evidence_unanswered;

-- A provider may also prove another outcome than `failed` or `cancelled`. The evidence then names the state that it proves. The row of the
-- operation stays as it is.
DROP TRIGGER operation_reversals_record ON operation_reversals;
DROP FUNCTION operation_reversals_record();

CREATE FUNCTION operation_reversals_proof() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  -- See operations_evidence() for the characters.
  proved text := regexp_replace(NEW.evidence::text, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'gi')::json ->> 'proves';
BEGIN
  IF NOT EXISTS (
    SELECT FROM operations o WHERE (o.id, o.client_id, o.provider) = (NEW.operation_id, NEW.client_id, NEW.provider)
      AND (o.state = 'succeeded'
        OR o.state IN ('failed', 'cancelled') AND proved IN ('submitted', 'indeterminate', 'succeeded'))
  ) THEN
    RAISE EXCEPTION 'nothing of this evidence reverses operation %', NEW.operation_id USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

-- The function finds the table in the present schema, not by the search path of the caller.
DO $path$
BEGIN
  EXECUTE format('ALTER FUNCTION operation_reversals_proof() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $path$;

CREATE TRIGGER operation_reversals_proof BEFORE INSERT ON operation_reversals
  FOR EACH ROW EXECUTE FUNCTION operation_reversals_proof();
ALTER TABLE operation_reversals ENABLE ALWAYS TRIGGER operation_reversals_proof;
