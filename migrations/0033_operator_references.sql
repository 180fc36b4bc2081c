-- The reference by which a person ends an operation is that of one payment: `findTransitionError` in the code.

-- After operations_evidence and operations_evidence_outcome, which check the form, and before operations_transition, which moves the
-- evidence to the history. It sees all operations, with the rights of the owner of the schema.
CREATE FUNCTION operations_evidence_reference() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  -- See operations_evidence() for the characters.
  evidence json := regexp_replace(NEW.evidence::text, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'gi');
  stated text := regexp_replace(evidence ->> 'reference', '^\s+|\s+$', '', 'g');
  other uuid;
BEGIN
  IF evidence ->> 'by' IS DISTINCT FROM 'operator' OR stated IS NULL THEN
    RETURN NEW;
  END IF;
  -- Of two persons who state the same reference at once, the second sees that of the first. Workers do not wait.
  LOCK TABLE operator_actions IN SHARE ROW EXCLUSIVE MODE;
  SELECT o.id INTO other FROM operations o
  WHERE o.reference = stated AND o.provider = NEW.provider AND o.id <> NEW.id
    AND coalesce(o.provider_account = NEW.provider_account, true)
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'operation % ends by no reference that operation % has', OLD.id, other USING ERRCODE = 'restrict_violation';
  END IF;
  -- operations_transition refuses another reference than that of the provider.
  IF evidence ->> 'reference_of' IS DISTINCT FROM 'answer' THEN
    NEW.reference := stated;
  END IF;
  RETURN NEW;
END $$;

-- The function finds the tables in the present schema, not by the search path of the caller.
DO $path$
BEGIN
  EXECUTE format('ALTER FUNCTION operations_evidence_reference() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $path$;
-- Otherwise any role could use it as a trigger of a table of its own.
REVOKE ALL ON FUNCTION operations_evidence_reference() FROM PUBLIC;

CREATE TRIGGER operations_evidence_reference BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.state IN ('submitting', 'submitted', 'indeterminate') AND NEW.state IN ('succeeded', 'failed')
    AND NEW.evidence::text LIKE '%"operator"%')
  EXECUTE FUNCTION operations_evidence_reference();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_evidence_reference;
