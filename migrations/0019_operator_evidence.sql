-- The evidence of a person states what the person asked the provider, and the answer: `OperatorEvidence` in the code.

-- Before operations_transition, which moves the evidence to the history: PostgreSQL fires triggers in the order of their names.
CREATE FUNCTION operations_evidence() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- PostgreSQL reads no member of JSON that has a NUL or a lone surrogate somewhere, and answers of providers may have them.
  evidence json := regexp_replace(NEW.evidence::text, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'gi');
  member text;
BEGIN
  IF evidence ->> 'by' IS DISTINCT FROM 'operator' THEN
    RETURN NEW;
  END IF;
  FOREACH member IN ARRAY ARRAY['question', 'asked', 'asked_at', 'reference'] LOOP
    IF json_typeof(evidence -> member) IS DISTINCT FROM 'string' OR evidence ->> member !~ '\S' THEN
      RAISE EXCEPTION 'operation % leaves indeterminate only with evidence: that of an operator needs its %', OLD.id, member
        USING ERRCODE = 'restrict_violation';
    END IF;
  END LOOP;
  -- The cast refuses instants that do not exist.
  IF evidence ->> 'asked_at' !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$'
    OR (evidence ->> 'asked_at')::timestamptz IS NULL
  THEN
    RAISE EXCEPTION 'operation % leaves indeterminate only with evidence: asked_at is no RFC 3339 date-time', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF coalesce(evidence ->> 'answer', '') !~ '\S' AND coalesce(evidence ->> 'document_sha256', '') !~ '^[0-9a-f]{64}$' THEN
    RAISE EXCEPTION 'operation % leaves indeterminate only with evidence: that of an operator needs an answer or the '
      'document_sha256 of one', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_evidence BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.state = 'indeterminate' AND NEW.state <> 'indeterminate' AND NEW.evidence IS NOT NULL)
  EXECUTE FUNCTION operations_evidence();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_evidence;
