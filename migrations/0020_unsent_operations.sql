-- An operation ends without a submission only if it was provably never sent, and no worker can send it any more.

-- The history of the ledger (`ledger_home.history`) in which the hold was placed on an operation that a worker could have claimed. So no
-- worker had claimed it. Null: nothing proves that the held operation was never sent.
ALTER TABLE operations ADD COLUMN unsent_in uuid;
-- Not valid: no row has the column yet.
ALTER TABLE operations ADD CONSTRAINT operations_unsent_in_check CHECK (unsent_in IS NULL OR hold_placed) NOT VALID;

-- Whether this ledger gives claims of the timeline: see the CTE `here` of the claims. Otherwise it may lack claims, returns and take-overs.
CREATE FUNCTION is_present_ledger(p_timeline integer) RETURNS boolean
  LANGUAGE sql VOLATILE AS $$
  SELECT p_timeline = ledger_timeline() AND EXISTS (
    SELECT FROM ledger_home h
    JOIN pg_control_system() s USING (system_identifier)
    JOIN pg_database d ON d.oid = h.database AND d.datname = current_database()
    WHERE h.epoch IS NULL OR h.epoch_life = ledger_life()
  )
$$;

-- Whether the operation was provably never sent, and no worker may send it unless it claims it, or takes it over, after this. Volatile: a
-- statement that waited for the row must see what committed meanwhile.
CREATE FUNCTION is_unsent(o operations) RETURNS boolean
  LANGUAGE sql VOLATILE AS $$
  SELECT NOT o.acknowledged AND is_present_ledger(o.timeline) AND CASE o.state
    WHEN 'accepted' THEN CASE WHEN o.hold_placed THEN EXISTS (SELECT FROM ledger_home h WHERE h.history = o.unsent_in)
      ELSE o.examined_timeline IS NULL END
    WHEN 'submitting' THEN o.return_reason IS NOT NULL
    ELSE false
  END
$$;

-- After operations_transition: PostgreSQL fires triggers in the order of their names. That one ends the hold with a transition.
CREATE FUNCTION operations_unsent() RETURNS trigger
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
  THEN
    RAISE EXCEPTION 'only the hold of an operation that could be claimed proves that operation % was never sent', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

-- The functions find the tables in the present schema, not by the search path of the caller.
DO $path$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY ARRAY['is_present_ledger(integer)', 'is_unsent(operations)', 'operations_unsent()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f, current_schema());
  END LOOP;
END $path$;

CREATE TRIGGER operations_unsent BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.unsent_in IS NOT NULL OR NEW.unsent_in IS NOT NULL
    OR NEW.state IN ('failed', 'cancelled') AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL))
  EXECUTE FUNCTION operations_unsent();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_unsent;
