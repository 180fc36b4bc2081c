-- Operators find operations by their payee, although the terms are sealed.

ALTER TABLE operations
  -- HMAC-SHA-256 of the payee under a key that is derived from that of the terms; without keys, its SHA-256: `payeeIndexes` in the code.
  ADD COLUMN payee_index bytea,
  ADD CONSTRAINT operations_payee_index_check CHECK (octet_length(payee_index) = 32) NOT VALID;
CREATE INDEX operations_by_payee ON operations (payee_index, updated_at, id) WHERE payee_index IS NOT NULL;

-- The value never changes, and is erased with the terms: see 0023_operation_terms.sql.
CREATE FUNCTION operations_terms_stay() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.terms, NEW.terms_key_id, NEW.erases_terms, NEW.payee_index)
    IS DISTINCT FROM (OLD.terms, OLD.terms_key_id, OLD.erases_terms, OLD.payee_index)
  THEN
    RAISE EXCEPTION 'the terms of operation % never change', OLD.id USING ERRCODE = 'restrict_violation';
  END IF;
  NEW.terms := NULL;
  NEW.terms_key_id := NULL;
  NEW.payee_index := NULL;
  RETURN NEW;
END $$;

DROP TRIGGER operations_terms ON operations;
CREATE TRIGGER operations_terms BEFORE UPDATE ON operations FOR EACH ROW
  WHEN ((NEW.terms, NEW.terms_key_id, NEW.erases_terms, NEW.payee_index)
      IS DISTINCT FROM (OLD.terms, OLD.terms_key_id, OLD.erases_terms, OLD.payee_index)
    OR NEW.erases_terms AND NEW.state IN ('succeeded', 'failed', 'cancelled'))
  EXECUTE FUNCTION operations_terms_stay();
DROP FUNCTION operations_terms();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_terms;
