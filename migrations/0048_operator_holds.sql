-- An operator's hold of any operation outlasts every proof. Until now a failover or a status read ended it, unless an approval was pending.

-- It counts while the operation is accepted and `hold_placed`: an operator holds it. Neither an approval nor a proof ends that.
COMMENT ON COLUMN operations.hold_outlasts_approval IS 'an operator holds the operation, until its release';
-- The holds of operators until now. A hold has the proof if an operator placed it, or if the operation waits for an approval. Earlier versions
-- stored no proof: what was held, and not released by an operator since, is an operator's.
UPDATE operations o SET hold_outlasts_approval = true
WHERE o.state = 'accepted' AND o.hold_placed AND (o.unsent_in IS NOT NULL AND o.approval IS DISTINCT FROM 'pending' OR EXISTS (
  SELECT FROM operator_actions h WHERE h.operation_id = o.id AND h.action = 'hold' AND h.result = 'done'
    AND NOT EXISTS (
      SELECT FROM operator_actions r WHERE r.operation_id = o.id AND r.action = 'release' AND r.result = 'done' AND r.at > h.at
    )
    AND NOT EXISTS (SELECT FROM operator_actions r WHERE r.action = 'release_all' AND r.result = 'done' AND r.at > h.at)
));

-- As operations_unsent_proof of 0035_approvals.sql. What an operator holds gets a new proof, too, where another operation is released.
-- A release by an earlier version, which does not know the mark, leaves the hold and the timeline of its proof. The mark ends with the hold.
CREATE FUNCTION operations_unsent_held() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state = 'accepted' AND NOT NEW.hold_placed THEN
    IF OLD.hold_placed AND OLD.hold_outlasts_approval AND NEW.hold_outlasts_approval THEN
      NEW.hold_placed := true;
      NEW.timeline := OLD.timeline;
    ELSE
      NEW.hold_outlasts_approval := false;
    END IF;
  END IF;
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
  WHEN (OLD.unsent_in IS NOT NULL OR NEW.unsent_in IS NOT NULL OR NEW.hold_outlasts_approval
    OR NEW.state IN ('failed', 'cancelled') AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL))
  EXECUTE FUNCTION operations_unsent_held();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_unsent;
