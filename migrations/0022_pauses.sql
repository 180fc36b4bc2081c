-- What makes operations wait, for operators: why workers send nothing, and whose status is not read.

-- Why the process sends nothing to each of its providers; null: it sends. It takes the place of circuits, which only earlier versions write.
ALTER TABLE worker_reports
  ALTER COLUMN circuits SET DEFAULT '{}',
  ADD COLUMN pauses jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(pauses) = 'object');

-- A reconciler sets operations.waiting, too: the status is due to be read, and nothing allows that, such as after a revocation.
CREATE INDEX operations_unread ON operations (provider, updated_at)
  WHERE waiting AND state IN ('submitted', 'indeterminate');
-- The same as before, and the operations whose status is not read.
DROP INDEX operations_waiting;
CREATE INDEX operations_waiting ON operations (provider, updated_at, id)
  WHERE state IN ('accepted', 'submitted', 'indeterminate') AND waiting
    OR state = 'submitting' AND return_reason IS NOT NULL;

-- A transition ends the wait. Otherwise an operation that waited to be sent would count as unread afterwards.
CREATE FUNCTION operations_wait_ends() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.waiting := false;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_wait_ends BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.waiting AND NEW.state <> OLD.state) EXECUTE FUNCTION operations_wait_ends();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_wait_ends;
UPDATE operations SET waiting = false WHERE waiting AND completed_at IS NULL AND state <> 'accepted';
