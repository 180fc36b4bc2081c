-- An operator's hold outlasts the decision about an approval. Until now the decision ended it.

-- An operator holds the operation, which waits for an approval, so the decision leaves it held. It counts while `approval` is `pending`.
ALTER TABLE operations ADD COLUMN hold_outlasts_approval boolean NOT NULL DEFAULT false;

-- After the UPDATE of an approval: its effect on the operation, as approvals_decided of 0035_approvals.sql, but for the hold.
CREATE FUNCTION approvals_applied() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF NEW.state = 'approved' THEN
    UPDATE operations o
    SET approval = 'approved', hold_placed = o.hold_outlasts_approval, due_at = date_trunc('milliseconds', now()), waiting = false,
      under_review = false, reviewed_at = now()
    WHERE o.id = NEW.operation_id AND o.client_id = NEW.client_id;
  ELSE
    UPDATE operations o
    SET state = 'cancelled', revision = o.revision + 1, evidence = approval_evidence(NEW.operation_id, NEW.client_id)
    WHERE o.id = NEW.operation_id AND o.client_id = NEW.client_id;
  END IF;
  RETURN NULL;
END $$;
-- The function finds the tables in the present schema, not by the search path of the caller.
DO $path$
BEGIN
  EXECUTE format('ALTER FUNCTION approvals_applied() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $path$;
REVOKE ALL ON FUNCTION approvals_applied() FROM PUBLIC;

DROP TRIGGER approvals_decided ON approvals;
DROP FUNCTION approvals_decided();
CREATE TRIGGER approvals_decided AFTER UPDATE ON approvals FOR EACH ROW
  WHEN (NEW.state <> 'ended') EXECUTE FUNCTION approvals_applied();
ALTER TABLE approvals ENABLE ALWAYS TRIGGER approvals_decided;
