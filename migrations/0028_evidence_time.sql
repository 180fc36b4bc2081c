-- The instant at which a person asked the provider can be true, and the answer counts: `validateAskedAt` in the code.

-- After operations_evidence, which checks the form, and before operations_transition, which moves the evidence to the history: PostgreSQL
-- fires triggers in the order of their names.
CREATE FUNCTION operations_evidence_time() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- See operations_evidence() for the characters.
  evidence json := regexp_replace(NEW.evidence::text, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'gi');
  asked_at timestamptz;
BEGIN
  IF evidence ->> 'by' IS DISTINCT FROM 'operator'
    OR coalesce(evidence ->> 'asked_at' !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$', true)
  THEN
    RETURN NEW;
  END IF;
  asked_at := evidence ->> 'asked_at';
  -- The clock of a person may differ by a minute.
  IF asked_at < OLD.created_at - interval '1 minute' THEN
    RAISE EXCEPTION 'the operator asked about operation % at %, before its creation at %', OLD.id, asked_at, OLD.created_at
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF asked_at > clock_timestamp() + interval '1 minute' THEN
    RAISE EXCEPTION 'the operator asked about operation % at %, which is in the future', OLD.id, asked_at
      USING ERRCODE = 'restrict_violation';
  END IF;
  -- A clock that is ahead by that minute dates an earlier answer so. A returned claim sent nothing. For a submitted operation
  -- operations_evidence_sendable has the rule.
  IF NEW.state = 'failed' AND OLD.state IN ('submitting', 'indeterminate') AND OLD.return_reason IS NULL
    AND asked_at < OLD.send_before + interval '1 minute'
  THEN
    RAISE EXCEPTION 'the operator asked about operation % at %: it could be sent until %', OLD.id, asked_at, OLD.send_before
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_evidence_time BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (NEW.state <> OLD.state AND NEW.evidence::text LIKE '%"asked_at"%')
  EXECUTE FUNCTION operations_evidence_time();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_evidence_time;
