-- What operators did, and the index of their search by reference.

-- One row for each action: one that the ledger carried out, in the transaction of the action; one that it refused, with the reason.
-- Append-only. It grows with the work of people, so it is not sharded.
CREATE TABLE operator_actions (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  -- Microseconds, so that the actions of one operation have an order. No role of the gateway may set it.
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  operator text NOT NULL CHECK (length(operator) BETWEEN 1 AND 255),
  via text NOT NULL CHECK (via IN ('console', 'command')),
  action text NOT NULL CHECK (
    action IN ('review', 'end_review', 'hold', 'release', 'cancel', 'hold_all', 'release_all')
  ),
  -- No foreign key: an operator may name an operation that does not exist, and is refused.
  operation_id uuid,
  -- Operations that an action on all of them changed.
  affected integer CHECK (affected >= 0),
  reason text CHECK (length(reason) BETWEEN 1 AND 1024),
  -- `done`, or why the ledger refused.
  result text NOT NULL CHECK (length(result) BETWEEN 1 AND 1024),
  CHECK ((operation_id IS NULL) = (action IN ('hold_all', 'release_all'))),
  CHECK ((affected IS NOT NULL) = (action IN ('hold_all', 'release_all') AND result = 'done'))
);
CREATE INDEX operator_actions_by_operation ON operator_actions (operation_id, at) WHERE operation_id IS NOT NULL;

CREATE TRIGGER operator_actions_permanent BEFORE UPDATE OR DELETE OR TRUNCATE ON operator_actions
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('the record of actions is append-only');
ALTER TABLE operator_actions ENABLE ALWAYS TRIGGER operator_actions_permanent;

-- With the id alone after the reference, PostgreSQL would read the primary key in its order, and all operations with it.
CREATE INDEX operations_by_reference ON operations (reference, updated_at, id) WHERE reference IS NOT NULL;

-- Operations that wait: a worker found them due but not ready, or returned its claim. The ordinary way of an operation never adds
-- a row.
CREATE INDEX operations_waiting ON operations (provider, updated_at, id)
  WHERE state = 'accepted' AND waiting OR state = 'submitting' AND return_reason IS NOT NULL;
