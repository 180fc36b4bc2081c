-- An operator's hold of any operation outlasts every proof. Until now a failover or a status read ended it, unless an approval was pending.

-- It counts while the operation is accepted and `hold_placed`: an operator holds it. Neither an approval nor a proof ends that.
COMMENT ON COLUMN operations.hold_outlasts_approval IS 'an operator holds the operation, until its release';
-- The holds of operators until now. Only those, and what waits for an approval, have the proof.
UPDATE operations SET hold_outlasts_approval = true
WHERE state = 'accepted' AND hold_placed AND unsent_in IS NOT NULL AND approval IS DISTINCT FROM 'pending';

-- As operations_unsent_proof of 0035_approvals.sql. What an operator holds gets a new proof, too, where another operation is released.
CREATE FUNCTION operations_unsent_held() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state <> OLD.state AND NEW.state IN ('failed', 'cancelled')
    AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL) AND NOT is_unsent(OLD)
  THEN
    RAISE EXCEPTION 'operation % may have been sent: it cannot become % without a submission', OLD.id, NEW.state
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF NOT NEW.hold_placed THEN
    NEW.unsent_in := NULL;
  ELSIF NEW.unsent_in IS NOT NULL AND NEW.unsent_in IS DISTINCT FROM OLD.unsent_in
    AND (OLD.hold_placed OR NOT is_unsent(OLD))
    AND ((OLD.approval = 'pending' OR OLD.hold_outlasts_approval) AND NOT NEW.acknowledged AND NEW.examined_timeline IS NULL
      AND OLD.examined_timeline = ledger_timeline() AND OLD.send_before <= now()) IS NOT TRUE
  THEN
    RAISE EXCEPTION 'only the hold of an operation that could be claimed proves that operation % was never sent', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;
-- The function finds the tables in the present schema, not by the search path of the caller.
DO $path$
BEGIN
  EXECUTE format('ALTER FUNCTION operations_unsent_held() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $path$;

DROP TRIGGER operations_unsent ON operations;
DROP FUNCTION operations_unsent_proof();
CREATE TRIGGER operations_unsent BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.unsent_in IS NOT NULL OR NEW.unsent_in IS NOT NULL
    OR NEW.state IN ('failed', 'cancelled') AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL))
  EXECUTE FUNCTION operations_unsent_held();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_unsent;
