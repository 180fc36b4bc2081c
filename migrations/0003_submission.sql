-- Submission: who acts next on an operation and when, and payloads that are erased once nothing can be sent any more.
--
-- None of these columns is part of the public form, so they change without a transition and without a revision.

-- The cluster and the database that this ledger lives in. A ledger that was restored elsewhere may have forgotten what it
-- submitted, and a copy must not submit what the original does.
CREATE TABLE ledger_home (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  system_identifier bigint NOT NULL,
  database oid NOT NULL
);
INSERT INTO ledger_home (system_identifier, database)
  SELECT s.system_identifier, d.oid FROM pg_control_system() s, pg_database d WHERE d.datname = current_database();

-- Grows by one with each promotion and each point-in-time recovery. Taken from the WAL, because the control file lags
-- behind a promotion until the next checkpoint.
CREATE FUNCTION ledger_timeline() RETURNS integer
  LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer
$$;

ALTER TABLE operations
  ADD COLUMN provider text,
  -- When the next one acts: the worker claims, the rescuer rescues, the reconciler reads. A final operation has nobody,
  -- any other always somebody.
  ADD COLUMN due_at timestamptz(3) CHECK (isfinite(due_at)),
  -- The timeline on which it was accepted; 0 holds it as well. On a later one nobody knows whether it was sent before.
  -- Negative: it is held, and `send_before` was set on that timeline.
  ADD COLUMN timeline integer,
  -- No byte leaves after this. Set by the claim.
  ADD COLUMN send_before timestamptz(3) CHECK (isfinite(send_before)),
  -- The name that the provider gave to what it received.
  ADD COLUMN reference text CHECK (length(reference) BETWEEN 1 AND 1024),
  -- Status reads so far: the schedule slows down with them.
  ADD COLUMN reads integer NOT NULL DEFAULT 0 CHECK (reads >= 0),
  -- A worker found that it could not be sent when it was due, and put it off.
  ADD COLUMN waiting boolean NOT NULL DEFAULT false,
  -- When an operator last cleared the review. Age counts from there.
  ADD COLUMN reviewed_at timestamptz(3);

ALTER TABLE operations DISABLE TRIGGER operations_transition;
UPDATE operations o SET
  provider = p.provider,
  timeline = ledger_timeline(),
  due_at = CASE WHEN o.state NOT IN ('succeeded', 'failed', 'cancelled') THEN now() END,
  under_review = o.under_review AND o.state NOT IN ('succeeded', 'failed', 'cancelled')
FROM provider_connections p WHERE p.id = o.provider_connection_id;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition;

ALTER TABLE operations
  ALTER COLUMN provider SET NOT NULL,
  ALTER COLUMN timeline SET NOT NULL,
  ADD CHECK ((due_at IS NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),
  -- A review ends when the operation does.
  ADD CHECK (NOT under_review OR state NOT IN ('succeeded', 'failed', 'cancelled'));

-- One queue for each role. They hold what is unsettled alone, however long the ledger grows.
--
-- Operations to claim stand in lanes: one lane for each client, so that claims can take turns, and one for all operations
-- that were put off. A claim skips from lane to lane. If operations that wait stood in the lanes of their clients, a claim
-- would have to look into the lane of every client that has one.
CREATE INDEX operations_to_claim
  ON operations (provider, timeline, (CASE WHEN waiting THEN '' ELSE client_id END COLLATE "C"), due_at)
  WHERE state = 'accepted';
CREATE INDEX operations_to_rescue ON operations (due_at) WHERE state = 'submitting';
CREATE INDEX operations_to_read ON operations (provider, due_at) WHERE state IN ('submitted', 'indeterminate');

-- Whether an owner still lets a client act through a provider connection.
CREATE INDEX grants_by_owner ON grants (client_id, resource_owner, subject, provider_connection_id);

-- The key that encrypts the payload, by its name; null when it lies in the clear.
ALTER TABLE operation_payloads
  ADD COLUMN key_id text CHECK (key_id ~ '^[A-Za-z0-9._~-]{1,80}$'),
  -- 256 KiB, and what encryption adds. A claim brings many payloads at once.
  ADD CHECK (octet_length(payload) <= 262172) NOT VALID;

CREATE OR REPLACE FUNCTION operations_accept() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.state <> 'accepted' OR NEW.revision <> 1 THEN
    RAISE EXCEPTION 'an operation starts as accepted, at revision 1' USING ERRCODE = 'restrict_violation';
  END IF;
  NEW.created_at := date_trunc('milliseconds', clock_timestamp());
  NEW.updated_at := NEW.created_at;
  NEW.due_at := NEW.created_at;
  NEW.send_before := NULL;
  NEW.reference := NULL;
  NEW.reads := 0;
  NEW.waiting := false;
  NEW.reviewed_at := NULL;
  EXECUTE format('SELECT %I.ledger_timeline()', TG_TABLE_SCHEMA) INTO NEW.timeline;
  EXECUTE format('SELECT provider FROM %I.provider_connections WHERE id = $1', TG_TABLE_SCHEMA)
    INTO NEW.provider USING NEW.provider_connection_id;
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION operations_transition() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF OLD.state IN ('succeeded', 'failed', 'cancelled') THEN
    RAISE EXCEPTION 'operation % is %, which is final', OLD.id, OLD.state USING ERRCODE = 'restrict_violation';
  END IF;
  IF (NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.grant_id, NEW.provider_connection_id, NEW.provider,
      NEW.type, NEW.idempotency_key, NEW.request_digest, NEW.created_at)
    IS DISTINCT FROM
     (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.grant_id, OLD.provider_connection_id, OLD.provider,
      OLD.type, OLD.idempotency_key, OLD.request_digest, OLD.created_at)
  THEN
    RAISE EXCEPTION 'the identity of an operation never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.reference IS NOT NULL AND NEW.reference IS DISTINCT FROM OLD.reference THEN
    RAISE EXCEPTION 'operation % keeps the reference that its provider gave it', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  -- Until when bytes may leave is decided with the claim, or by whoever finds an operation held; and once it was
  -- claimed, neither can be told differently.
  IF (NEW.send_before, NEW.timeline) IS DISTINCT FROM (OLD.send_before, OLD.timeline) AND OLD.state <> 'accepted' THEN
    RAISE EXCEPTION 'operation % was claimed, and when it could be sent is settled', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.state = OLD.state THEN
    -- Without a transition only the review and the schedule may change: the rest is a function of the revision.
    IF (NEW.revision, NEW.updated_at, NEW.completed_at, NEW.failure_code, NEW.failure_message, NEW.evidence::text)
      IS DISTINCT FROM
       (OLD.revision, OLD.updated_at, OLD.completed_at, OLD.failure_code, OLD.failure_message, NULL)
    THEN
      RAISE EXCEPTION 'operation % changes through transitions alone', OLD.id USING ERRCODE = 'restrict_violation';
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
  -- Proof is an object that says something.
  IF OLD.state = 'indeterminate'
    AND (NEW.evidence IS NULL OR json_typeof(NEW.evidence) <> 'object' OR NEW.evidence::text ~ '^\s*\{\s*\}\s*$')
  THEN
    RAISE EXCEPTION 'operation % leaves indeterminate on recorded proof alone', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.revision <> OLD.revision + 1 THEN
    RAISE EXCEPTION 'a transition adds one to the revision of operation %', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  -- Never before the last change, even when the clock was set back.
  NEW.updated_at := greatest(date_trunc('milliseconds', clock_timestamp()), OLD.updated_at);
  IF NEW.state IN ('succeeded', 'failed', 'cancelled') THEN
    NEW.completed_at := NEW.updated_at;
    NEW.due_at := NULL;
    NEW.under_review := false;
    EXECUTE format('DELETE FROM %I.operation_payloads WHERE operation_id = $1 AND client_id = $2', TG_TABLE_SCHEMA)
      USING NEW.id, NEW.client_id;
  ELSE
    NEW.completed_at := NULL;
    -- Whoever moves an operation says who acts next. One that was moved by hand is looked at at once; one that was
    -- claimed by hand has some minutes before it is rescued.
    IF NEW.due_at IS NOT DISTINCT FROM OLD.due_at THEN
      NEW.due_at := NEW.updated_at
        + CASE WHEN NEW.state = 'submitting' THEN interval '5 minutes' ELSE interval '0' END;
    END IF;
  END IF;
  EXECUTE format('INSERT INTO %I.operation_history VALUES ($1, $2, $3, $4, $5, $6, $7)', TG_TABLE_SCHEMA)
    USING NEW.id, NEW.client_id, NEW.revision, OLD.state, NEW.state, NEW.updated_at, NEW.evidence;
  NEW.evidence := NULL;
  RETURN NEW;
END $$;

-- Payloads go when nothing can be sent any more, and with the transition that says so. Before that they stay as bound.
CREATE FUNCTION operation_payloads_guard() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_trigger_depth() < 2 THEN
    RAISE EXCEPTION 'DELETE on operation_payloads is refused: the end of an operation erases its payload'
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END $$;

DROP TRIGGER operation_payloads_permanent ON operation_payloads;
DELETE FROM operation_payloads USING operations o
  WHERE o.id = operation_id AND o.state IN ('succeeded', 'failed', 'cancelled');
CREATE TRIGGER operation_payloads_permanent BEFORE UPDATE OR TRUNCATE ON operation_payloads
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('what is submitted is what was bound');
CREATE TRIGGER operation_payloads_guard BEFORE DELETE ON operation_payloads
  FOR EACH ROW EXECUTE FUNCTION operation_payloads_guard();
ALTER TABLE operation_payloads ENABLE ALWAYS TRIGGER operation_payloads_permanent;
ALTER TABLE operation_payloads ENABLE ALWAYS TRIGGER operation_payloads_guard;
