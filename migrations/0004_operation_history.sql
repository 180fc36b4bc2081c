-- The history of operations: one row for each acceptance and each transition, append-only. The triggers of operations
-- write it, in the statement that makes the transition.

CREATE TABLE operation_history (
  operation_id uuid NOT NULL,
  client_id text NOT NULL,
  revision integer NOT NULL,
  from_state text,
  to_state text NOT NULL,
  at timestamptz(3) NOT NULL,
  evidence json,
  PRIMARY KEY (operation_id, client_id, revision),
  FOREIGN KEY (operation_id, client_id) REFERENCES operations (id, client_id)
);

-- Refuses an INSERT that no trigger makes, also to the owner of the table.
CREATE FUNCTION operation_history_guard() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_trigger_depth() < 2 THEN
    RAISE EXCEPTION 'INSERT on operation_history is refused: transitions write it' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER operation_history_guard BEFORE INSERT ON operation_history
  FOR EACH ROW EXECUTE FUNCTION operation_history_guard();
CREATE TRIGGER operation_history_permanent BEFORE UPDATE OR DELETE OR TRUNCATE ON operation_history
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('history is append-only');
ALTER TABLE operation_history ENABLE ALWAYS TRIGGER operation_history_guard;
ALTER TABLE operation_history ENABLE ALWAYS TRIGGER operation_history_permanent;
