-- While a planned switchover is under way, no worker claims. The time ends the stop if the command dies. A standby that has the holds of the
-- switchover has the stop, too, because it was committed before them.
ALTER TABLE ledger_home ADD COLUMN claims_stopped_until timestamptz;

-- Refuses the claims of every worker, also of an earlier version, which does not look at the stop. A claim alone gives the operation another
-- `send_before`: what a person or a status read records is no claim.
CREATE FUNCTION refuse_stopped_claim() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF EXISTS (SELECT FROM ledger_home WHERE claims_stopped_until > now()) THEN
    RAISE EXCEPTION 'a planned switchover has stopped all claims' USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  RETURN NEW;
END $$;

-- The function finds the table in the present schema, not by the search path of the caller.
DO $path$
BEGIN
  EXECUTE format('ALTER FUNCTION refuse_stopped_claim() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $path$;
REVOKE ALL ON FUNCTION refuse_stopped_claim() FROM PUBLIC;

CREATE TRIGGER operations_stopped_claim BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.state = 'accepted' AND NEW.state = 'submitting' AND NEW.send_before IS DISTINCT FROM OLD.send_before)
  EXECUTE FUNCTION refuse_stopped_claim();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_stopped_claim;
