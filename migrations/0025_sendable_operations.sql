-- While a request may still be sent, the answer of a person about an operation is too early: the provider may get the request after it.

-- Before operations_transition, which moves the evidence to the history: PostgreSQL fires triggers in the order of their names.
CREATE FUNCTION operations_sendable() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- See operations_evidence() for the characters.
  IF regexp_replace(NEW.evidence::text, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'gi')::json ->> 'by' = 'operator' THEN
    RAISE EXCEPTION 'operation % may still be sent: it cannot fail before its send_before', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_sendable BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.state = 'indeterminate' AND NEW.state = 'failed' AND OLD.send_before > now() AND NEW.evidence IS NOT NULL)
  EXECUTE FUNCTION operations_sendable();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_sendable;
