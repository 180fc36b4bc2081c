-- The terms of operations (amount, currency, payee), and the answer of the last status read: for operators alone.

ALTER TABLE operations
  -- JSON in UTF-8, sealed as the payload is: see 0005_operation_payloads.sql. Null: the type of the operation declares none.
  ADD COLUMN terms bytea,
  ADD COLUMN terms_key_id text,
  -- The end of the operation erases its terms, as it erases the payload.
  ADD COLUMN erases_terms boolean NOT NULL DEFAULT false,
  -- The number of the last status read that was answered, when, and the answer, if it proved nothing. Evidence is in the history.
  ADD COLUMN last_read json,
  -- Not valid: no row has the columns yet, and a check of all rows would stop the traffic.
  ADD CONSTRAINT operations_terms_check CHECK (octet_length(terms) <= 2048) NOT VALID,
  ADD CONSTRAINT operations_terms_key_id_check CHECK (terms_key_id ~ '^[A-Za-z0-9._~-]{1,80}$') NOT VALID;

-- Before operations_transition, which sets the other columns.
CREATE FUNCTION operations_terms() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.terms, NEW.terms_key_id, NEW.erases_terms) IS DISTINCT FROM (OLD.terms, OLD.terms_key_id, OLD.erases_terms) THEN
    RAISE EXCEPTION 'the terms of operation % never change', OLD.id USING ERRCODE = 'restrict_violation';
  END IF;
  NEW.terms := NULL;
  NEW.terms_key_id := NULL;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_terms BEFORE UPDATE ON operations FOR EACH ROW
  WHEN ((NEW.terms, NEW.terms_key_id, NEW.erases_terms) IS DISTINCT FROM (OLD.terms, OLD.terms_key_id, OLD.erases_terms)
    OR NEW.erases_terms AND NEW.state IN ('succeeded', 'failed', 'cancelled'))
  EXECUTE FUNCTION operations_terms();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_terms;

-- To see terms is an action. One record names all operations of a page.
ALTER TABLE operator_actions
  ADD COLUMN operation_ids uuid[] CHECK (cardinality(operation_ids) BETWEEN 1 AND 1000),
  DROP CONSTRAINT operator_actions_action_check,
  DROP CONSTRAINT operator_actions_check,
  ADD CONSTRAINT operator_actions_action_check CHECK (
    action IN ('review', 'end_review', 'hold', 'release', 'cancel', 'hold_all', 'release_all', 'advance', 'show_terms')
  ),
  ADD CHECK ((operation_id IS NULL) = (action IN ('hold_all', 'release_all', 'show_terms'))),
  ADD CHECK ((operation_ids IS NOT NULL) = (action = 'show_terms'));
CREATE INDEX operator_actions_by_shown ON operator_actions USING gin (operation_ids) WHERE operation_ids IS NOT NULL;
