-- The rules of operations, as triggers. The code has the same rules. The triggers keep them against other programs and
-- against mistakes in the code.

-- Before the INSERT. An operation starts as accepted, and the database sets the columns of the workers and the times.
CREATE FUNCTION operations_accept() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state <> 'accepted' OR NEW.revision <> 1 THEN
    RAISE EXCEPTION 'an operation starts as accepted, at revision 1' USING ERRCODE = 'restrict_violation';
  END IF;
  NEW.created_at := date_trunc('milliseconds', clock_timestamp());
  NEW.updated_at := NEW.created_at;
  NEW.due_at := NEW.created_at;
  NEW.waiting := false;
  NEW.hold_placed := false;
  NEW.examined_timeline := NULL;
  NEW.send_before := NULL;
  NEW.claimed_by := NULL;
  NEW.return_reason := NULL;
  NEW.reference := NULL;
  NEW.acknowledged := false;
  NEW.reads := 0;
  NEW.reviewed_at := NULL;
  NEW.reading_since := NULL;
  NEW.hinted_at := NULL;
  SELECT ledger_timeline(), h.change_offset + pg_current_xact_id()::text::bigint, p.provider, g.scopes
  INTO NEW.timeline, NEW.change_position, NEW.provider, NEW.scopes
  FROM ledger_home h
  LEFT JOIN provider_connections p ON p.id = NEW.provider_connection_id
  LEFT JOIN grants g ON g.id = NEW.grant_id AND g.client_id = NEW.client_id;
  RETURN NEW;
END $$;

-- After the INSERT, so that an INSERT that meets a conflict and does nothing leaves no history. It runs once for all rows of the
-- statement. It has the rights of the owner of the schema: a role that writes operations needs no right to write history.
CREATE FUNCTION operations_accepted() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO operation_history (operation_id, client_id, revision, to_state, at)
  SELECT id, client_id, revision, state, updated_at FROM added;
  RETURN NULL;
END $$;

-- After the UPDATE, once for all rows of the statement: erases the payloads of the operations that it settled. No other UPDATE
-- leaves a row with completed_at, because a settled operation never changes. The rights are those of operations_accepted.
--
-- PostgreSQL keeps the plan of the first call. The table of payloads is as small as the queue, and a plan for few payloads would
-- read all of them later. The array and IS TRUE leave no join that could, and the setting leaves no scan of the table.
CREATE FUNCTION operations_settled() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
BEGIN
  DELETE FROM operation_payloads y
  WHERE y.operation_id = ANY (ARRAY(SELECT id FROM changed WHERE completed_at IS NOT NULL))
    AND ((y.operation_id, y.client_id) IN (SELECT id, client_id FROM changed WHERE completed_at IS NOT NULL)) IS TRUE;
  RETURN NULL;
END $$;

-- Before the UPDATE. It runs with the rights of the owner of the schema: see operations_accepted.
CREATE FUNCTION operations_transition() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  -- A worker that sent nothing returns its claim, or a worker takes over a returned claim.
  is_return boolean := NEW.state = OLD.state AND OLD.return_reason IS NULL AND NEW.return_reason IS NOT NULL;
  is_take_over boolean := NEW.state = OLD.state AND OLD.return_reason IS NOT NULL AND NEW.return_reason IS NULL;
BEGIN
  IF OLD.state IN ('succeeded', 'failed', 'cancelled') THEN
    RAISE EXCEPTION 'operation % is %, which is final', OLD.id, OLD.state USING ERRCODE = 'restrict_violation';
  END IF;
  IF (NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.grant_id, NEW.provider_connection_id, NEW.provider,
      NEW.scopes, NEW.type, NEW.idempotency_key, NEW.request_digest, NEW.created_at)
    IS DISTINCT FROM
     (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.grant_id, OLD.provider_connection_id, OLD.provider,
      OLD.scopes, OLD.type, OLD.idempotency_key, OLD.request_digest, OLD.created_at)
  THEN
    RAISE EXCEPTION 'the identity of an operation never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.reference IS NOT NULL AND NEW.reference IS DISTINCT FROM OLD.reference THEN
    RAISE EXCEPTION 'operation % keeps the reference of its provider', OLD.id USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.state <> 'accepted' AND (NEW.timeline, NEW.hold_placed, NEW.examined_timeline)
    IS DISTINCT FROM (OLD.timeline, OLD.hold_placed, OLD.examined_timeline)
  THEN
    RAISE EXCEPTION 'operation % was claimed: its hold never changes any more', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  -- The claim sets send_before; for a held operation the reconciler does. A claim whose take-over may be lost gets a later
  -- one together with `indeterminate`, because the worker that took it over may still send. A rollback may take the worker
  -- of a claim away.
  IF OLD.state <> 'accepted' AND NOT is_take_over
    AND (NEW.claimed_by <> OLD.claimed_by OR NEW.claimed_by IS NOT NULL AND OLD.claimed_by IS NULL
      OR NEW.send_before IS DISTINCT FROM OLD.send_before
        AND (OLD.state = 'submitting' AND NEW.state = 'indeterminate' AND NEW.send_before > OLD.send_before) IS NOT TRUE)
  THEN
    RAISE EXCEPTION 'operation % was claimed: its send_before and its worker change only with a take-over', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF is_return AND (NEW.claimed_by, NEW.waiting, NEW.reference, NEW.acknowledged, NEW.reads, NEW.reviewed_at)
    IS DISTINCT FROM (OLD.claimed_by, OLD.waiting, OLD.reference, false, OLD.reads, OLD.reviewed_at)
  THEN
    RAISE EXCEPTION 'the return of operation % changes only its reason, its next action and its review', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.state = OLD.state AND NEW.return_reason <> OLD.return_reason THEN
    RAISE EXCEPTION 'operation % was returned: it keeps the reason', OLD.id USING ERRCODE = 'restrict_violation';
  END IF;
  -- A hint proves nothing. So it moves a status read forward, and changes nothing else.
  IF NEW.hinted_at IS DISTINCT FROM OLD.hinted_at
    AND ((NEW.state, NEW.revision, NEW.under_review, NEW.failure_code, NEW.evidence::text, NEW.waiting, NEW.timeline,
        NEW.hold_placed, NEW.examined_timeline, NEW.send_before, NEW.claimed_by, NEW.return_reason, NEW.reference, NEW.reads,
        NEW.reviewed_at, NEW.reading_since)
      IS DISTINCT FROM
       (OLD.state, OLD.revision, OLD.under_review, OLD.failure_code, NULL, OLD.waiting, OLD.timeline,
        OLD.hold_placed, OLD.examined_timeline, OLD.send_before, OLD.claimed_by, OLD.return_reason, OLD.reference, OLD.reads,
        OLD.reviewed_at, OLD.reading_since)
      OR CASE WHEN OLD.state = 'submitting' THEN NEW.due_at IS DISTINCT FROM OLD.due_at
        ELSE coalesce(NEW.due_at > OLD.due_at, true) END)
  THEN
    RAISE EXCEPTION 'a hint about operation % only moves its next status read forward', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  -- A later send_before makes every earlier holder stale. After a change of the timeline, a lost take-over may have sent.
  IF is_take_over THEN
    IF coalesce(NEW.send_before <= OLD.send_before, true) OR NEW.timeline <> ledger_timeline() THEN
      RAISE EXCEPTION 'operation % is taken over only on its timeline, and with a later send_before', OLD.id
        USING ERRCODE = 'restrict_violation';
    END IF;
  END IF;
  NEW.acknowledged := OLD.acknowledged OR NEW.reference IS NOT NULL OR NEW.state = 'submitted';
  IF NEW.state = OLD.state THEN
    -- Without a transition only the review and the columns of the workers may change.
    IF (NEW.revision, NEW.updated_at, NEW.completed_at, NEW.failure_code, NEW.failure_message, NEW.evidence::text)
      IS DISTINCT FROM
       (OLD.revision, OLD.updated_at, OLD.completed_at, OLD.failure_code, OLD.failure_message, NULL)
    THEN
      RAISE EXCEPTION 'operation % changes only by transitions', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    NEW.change_position := OLD.change_position;
    IF NEW.under_review <> OLD.under_review THEN
      SELECT change_offset + pg_current_xact_id()::text::bigint INTO NEW.change_position FROM ledger_home;
    END IF;
    RETURN NEW;
  END IF;
  IF NOT (CASE OLD.state
    WHEN 'accepted' THEN NEW.state IN ('submitting', 'failed', 'cancelled')
    WHEN 'submitting' THEN NEW.state IN ('submitted', 'succeeded', 'failed', 'indeterminate')
    WHEN 'submitted' THEN NEW.state IN ('succeeded', 'failed', 'indeterminate')
    WHEN 'indeterminate' THEN NEW.state IN ('submitted', 'succeeded', 'failed')
    ELSE false
  END) THEN
    RAISE EXCEPTION 'operation % cannot move from % to %', OLD.id, OLD.state, NEW.state
      USING ERRCODE = 'restrict_violation';
  END IF;
  -- Evidence is an object that is not empty.
  IF OLD.state = 'indeterminate'
    AND (NEW.evidence IS NULL OR json_typeof(NEW.evidence) <> 'object' OR NEW.evidence::text ~ '^\s*\{\s*\}\s*$')
  THEN
    RAISE EXCEPTION 'operation % leaves indeterminate only with evidence', OLD.id USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.revision <> OLD.revision + 1 THEN
    RAISE EXCEPTION 'a transition adds one to the revision of operation %', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  -- Never before the last change, even if the clock was set back.
  NEW.updated_at := greatest(date_trunc('milliseconds', clock_timestamp()), OLD.updated_at);
  -- A hold ends when the operation leaves `accepted`, and a return when it leaves `submitting`. The status read has ended.
  NEW.hold_placed := false;
  NEW.examined_timeline := NULL;
  NEW.return_reason := NULL;
  NEW.reading_since := NULL;
  IF NEW.state IN ('succeeded', 'failed', 'cancelled') THEN
    NEW.completed_at := NEW.updated_at;
    NEW.due_at := NULL;
    NEW.under_review := false;
  ELSE
    NEW.completed_at := NULL;
    -- Null: the transition gives no time, as `operations advance` does. The next component then acts at once. The rescuer
    -- waits five minutes, so that a claim by hand has time for its report. A statement of another program that does not
    -- mention due_at keeps the old time.
    NEW.due_at := coalesce(NEW.due_at, NEW.updated_at
      + CASE WHEN NEW.state = 'submitting' THEN interval '5 minutes' ELSE interval '0' END);
  END IF;
  INSERT INTO operation_history (operation_id, client_id, revision, from_state, to_state, at, evidence)
  VALUES (NEW.id, NEW.client_id, NEW.revision, OLD.state, NEW.state, NEW.updated_at, NEW.evidence);
  SELECT change_offset + pg_current_xact_id()::text::bigint INTO NEW.change_position FROM ledger_home;
  NEW.evidence := NULL;
  RETURN NEW;
END $$;

-- The functions find the tables in the present schema, not by the search path of the caller. Their statements are static, so that
-- PostgreSQL plans each once for a session.
DO $path$
DECLARE
  f regproc;
BEGIN
  FOREACH f IN ARRAY 
    ARRAY['operations_accept', 'operations_accepted', 'operations_transition', 'operations_settled']::regproc[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f::regprocedure, current_schema());
  END LOOP;
END $path$;
-- Otherwise any role could use them as triggers of a table of its own, and write as the owner.
REVOKE ALL ON FUNCTION operations_transition(), operations_accepted(), operations_settled() FROM PUBLIC;

CREATE TRIGGER operations_accept BEFORE INSERT ON operations FOR EACH ROW EXECUTE FUNCTION operations_accept();
CREATE TRIGGER operations_accepted AFTER INSERT ON operations REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION operations_accepted();
CREATE TRIGGER operations_transition BEFORE UPDATE ON operations FOR EACH ROW EXECUTE FUNCTION operations_transition();
CREATE TRIGGER operations_settled AFTER UPDATE ON operations REFERENCING NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION operations_settled();
CREATE TRIGGER operations_permanent BEFORE DELETE OR TRUNCATE ON operations
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('operations are never deleted');
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_accept;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_accepted;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_settled;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_permanent;
