-- The history of operations: one row for each acceptance and each transition, append-only. The triggers of operations
-- write it, in the statement that makes the transition.
--
-- There is no foreign key to operations: it would look up and lock the operation at each transition. Only the triggers of
-- operations write here, with the key of their own row, and operations are neither deleted nor truncated, nor change their key.

CREATE TABLE operation_history (
  operation_id uuid NOT NULL,
  client_id text NOT NULL,
  revision integer NOT NULL,
  from_state text,
  to_state text NOT NULL,
  at timestamptz(3) NOT NULL,
  evidence json,
  PRIMARY KEY (operation_id, client_id, revision)
);

-- Refuses an INSERT that no trigger makes, also to the owner of the table. A trigger that makes one has the depth 1 here. The
-- condition needs no call of a function for the others, and PostgreSQL reads it here, so no search path changes it.
CREATE TRIGGER operation_history_guard BEFORE INSERT ON operation_history
  FOR EACH STATEMENT WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION refuse_statement('transitions write it');
CREATE TRIGGER operation_history_permanent BEFORE UPDATE OR DELETE OR TRUNCATE ON operation_history
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('history is append-only');
ALTER TABLE operation_history ENABLE ALWAYS TRIGGER operation_history_guard;
ALTER TABLE operation_history ENABLE ALWAYS TRIGGER operation_history_permanent;
