-- The ledger: durable operations, their append-only history, and the payloads that wait for submission.
--
-- The rules are enforced here as well as in the code, so that no other program, and no mistake in ours, can make the
-- ledger say what did not happen. ENABLE ALWAYS keeps the triggers on under session_replication_role = replica.

CREATE TABLE operations (
  id uuid NOT NULL CHECK (get_byte(uuid_send(id), 6) >> 4 = 7),
  client_id text NOT NULL,
  resource_owner text NOT NULL,
  subject text NOT NULL,
  grant_id uuid NOT NULL,
  provider_connection_id uuid NOT NULL,
  type text NOT NULL CHECK (type ~ '^[a-z][a-z0-9_.]*$' AND length(type) <= 64),
  idempotency_key text NOT NULL CHECK (idempotency_key ~ '^[\x21-\x7e]{1,255}$'),
  request_digest bytea NOT NULL CHECK (octet_length(request_digest) = 32),
  state text NOT NULL CHECK (
    state IN ('accepted', 'submitting', 'submitted', 'indeterminate', 'succeeded', 'failed', 'cancelled')
  ),
  revision integer NOT NULL CHECK (revision >= 1),
  under_review boolean NOT NULL DEFAULT false,
  -- Milliseconds, because the keyset of a list must survive the way through JavaScript.
  created_at timestamptz(3) NOT NULL,
  updated_at timestamptz(3) NOT NULL,
  completed_at timestamptz(3),
  failure_code text CHECK (failure_code ~ '^[a-z][a-z0-9_]*$' AND length(failure_code) <= 64),
  failure_message text CHECK (length(failure_message) BETWEEN 1 AND 1024),
  -- What proves a transition travels in here, in the statement that makes it, and is moved to the history on arrival.
  -- It is never kept, so that old evidence cannot pass for new.
  evidence json CHECK (evidence IS NULL),
  -- client_id is part of the key for sharding; id comes first so that the ledger finds an operation by its id alone.
  PRIMARY KEY (id, client_id),
  -- The request binding. It is never released.
  UNIQUE (client_id, subject, idempotency_key),
  -- One owner, one subject and one client: those of the grant through which it was accepted.
  FOREIGN KEY (grant_id, client_id, resource_owner, subject, provider_connection_id)
    REFERENCES grants (id, client_id, resource_owner, subject, provider_connection_id),
  CHECK ((completed_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),
  CHECK ((failure_code IS NOT NULL) = (state = 'failed')),
  CHECK ((failure_message IS NOT NULL) = (state = 'failed'))
);

-- One index per way to list, each in list order, so that the cost of a page does not grow with what an owner has.
CREATE INDEX operations_by_creation
  ON operations (client_id, resource_owner, subject, created_at DESC, id DESC);
CREATE INDEX operations_by_state
  ON operations (client_id, resource_owner, subject, state, created_at DESC, id DESC);
CREATE INDEX operations_by_type
  ON operations (client_id, resource_owner, subject, type, state, created_at DESC, id DESC);
CREATE INDEX operations_by_update
  ON operations (client_id, resource_owner, subject, updated_at);

CREATE TABLE operation_history (
  operation_id uuid NOT NULL,
  client_id text NOT NULL,
  revision integer NOT NULL,
  from_state text,
  to_state text NOT NULL,
  at timestamptz(3) NOT NULL,
  evidence json,
  PRIMARY KEY (operation_id, client_id, revision),
  FOREIGN KEY (operation_id, client_id) REFERENCES operations (id, client_id)
);

-- For the submitting worker alone. No read of the gateway touches this table.
CREATE TABLE operation_payloads (
  operation_id uuid NOT NULL,
  client_id text NOT NULL,
  -- Canonical JSON (RFC 8785) in UTF-8. With the type of the operation it is what request_digest was made from.
  payload bytea NOT NULL,
  PRIMARY KEY (operation_id, client_id),
  FOREIGN KEY (operation_id, client_id) REFERENCES operations (id, client_id)
);

-- An operation is born accepted. The database's clock dates it, not the caller's.
CREATE FUNCTION operations_accept() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.state <> 'accepted' OR NEW.revision <> 1 THEN
    RAISE EXCEPTION 'an operation starts as accepted, at revision 1' USING ERRCODE = 'restrict_violation';
  END IF;
  NEW.created_at := date_trunc('milliseconds', clock_timestamp());
  NEW.updated_at := NEW.created_at;
  RETURN NEW;
END $$;

-- Runs with the rights of the schema's owner, so that whoever may write operations need not be able to write history.
CREATE FUNCTION operations_transition() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF OLD.state IN ('succeeded', 'failed', 'cancelled') THEN
    RAISE EXCEPTION 'operation % is %, which is final', OLD.id, OLD.state USING ERRCODE = 'restrict_violation';
  END IF;
  IF (NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.grant_id, NEW.provider_connection_id, NEW.type,
      NEW.idempotency_key, NEW.request_digest, NEW.created_at)
    IS DISTINCT FROM
     (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.grant_id, OLD.provider_connection_id, OLD.type,
      OLD.idempotency_key, OLD.request_digest, OLD.created_at)
  THEN
    RAISE EXCEPTION 'the identity of an operation never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.state = OLD.state THEN
    -- Without a transition only under_review may change: the rest is a function of the revision.
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
  NEW.completed_at := CASE WHEN NEW.state IN ('succeeded', 'failed', 'cancelled') THEN NEW.updated_at END;
  EXECUTE format('INSERT INTO %I.operation_history VALUES ($1, $2, $3, $4, $5, $6, $7)', TG_TABLE_SCHEMA)
    USING NEW.id, NEW.client_id, NEW.revision, OLD.state, NEW.state, NEW.updated_at, NEW.evidence;
  NEW.evidence := NULL;
  RETURN NEW;
END $$;

-- The acceptance, recorded once the row is there: a conflicting INSERT that does nothing leaves no trace.
CREATE FUNCTION operations_accepted() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('INSERT INTO %I.operation_history VALUES ($1, $2, $3, NULL, $4, $5, NULL)', TG_TABLE_SCHEMA)
    USING NEW.id, NEW.client_id, NEW.revision, NEW.state, NEW.updated_at;
  RETURN NULL;
END $$;

-- Nobody may hang these on a table of their own, to write as the owner.
REVOKE ALL ON FUNCTION operations_transition(), operations_accepted() FROM PUBLIC;

-- History is written inside the statement that makes it. An INSERT of one's own is refused even to the owner.
CREATE FUNCTION operation_history_guard() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_trigger_depth() < 2 THEN
    RAISE EXCEPTION 'INSERT on operation_history is refused: transitions write it' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_accept BEFORE INSERT ON operations FOR EACH ROW EXECUTE FUNCTION operations_accept();
CREATE TRIGGER operations_transition BEFORE UPDATE ON operations FOR EACH ROW EXECUTE FUNCTION operations_transition();
CREATE TRIGGER operations_accepted AFTER INSERT ON operations FOR EACH ROW EXECUTE FUNCTION operations_accepted();
CREATE TRIGGER operations_permanent BEFORE DELETE OR TRUNCATE ON operations
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('operations are never deleted');
CREATE TRIGGER operation_history_guard BEFORE INSERT ON operation_history
  FOR EACH ROW EXECUTE FUNCTION operation_history_guard();
CREATE TRIGGER operation_payloads_permanent BEFORE UPDATE OR DELETE OR TRUNCATE ON operation_payloads
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('what is submitted is what was bound');
CREATE TRIGGER operation_history_permanent BEFORE UPDATE OR DELETE OR TRUNCATE ON operation_history
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('history is append-only');

ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_accept;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_accepted;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_permanent;
ALTER TABLE operation_payloads ENABLE ALWAYS TRIGGER operation_payloads_permanent;
ALTER TABLE operation_history ENABLE ALWAYS TRIGGER operation_history_guard;
ALTER TABLE operation_history ENABLE ALWAYS TRIGGER operation_history_permanent;
