-- Approvals: an operation that the limits of its grant let wait for a person. It is held from its acceptance on, and only a recorded
-- decision ends that hold. `services/rules/approvals.ts` has the same rules for the ledger in memory.

ALTER TABLE operations
  -- `pending`: it waits for a decision. `approved`: it waited, and may be sent. Null: it needs none.
  ADD COLUMN approval text,
  -- HMAC-SHA-256 of the exact payee of a limited operation, as of payee_index; null where the end of the operation erases its terms.
  ADD COLUMN limit_payee bytea,
  -- Not valid: no row has the columns yet.
  ADD CONSTRAINT operations_approval_check CHECK (approval IN ('pending', 'approved')) NOT VALID,
  ADD CONSTRAINT operations_limit_payee_check CHECK (octet_length(limit_payee) = 32) NOT VALID;
-- The payees that received money under a grant.
CREATE INDEX operations_paid ON operations (grant_id, client_id, limit_payee) WHERE limit_payee IS NOT NULL AND state = 'succeeded';

-- One row for each operation that waits, or has waited: its request, and the one decision about it.
CREATE TABLE approvals (
  operation_id uuid NOT NULL,
  client_id text NOT NULL,
  resource_owner text NOT NULL,
  request_digest bytea NOT NULL,
  -- `ended`: the operation ended without a decision, such as by a cancellation.
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'ended')),
  created_at timestamptz(3) NOT NULL,
  expires_at timestamptz(3) NOT NULL,
  -- What the decider saw.
  decided_digest bytea,
  decided_as text CHECK (decided_as IN ('owner', 'operator')),
  decider text CHECK (length(decider) BETWEEN 1 AND 255),
  reason text CHECK (length(reason) BETWEEN 1 AND 1024),
  decided_at timestamptz(3),
  PRIMARY KEY (operation_id, client_id),
  CHECK ((decided_at IS NULL) = (state = 'pending')),
  CHECK (CASE WHEN state IN ('approved', 'denied')
    THEN coalesce(decided_digest = request_digest AND decider <> client_id
      AND (decided_as = 'operator' OR decided_as = 'owner' AND decider = resource_owner), false)
    ELSE num_nonnulls(decided_digest, decided_as, decider, reason) = 0 END)
);
CREATE INDEX approvals_pending ON approvals (expires_at, operation_id) WHERE state = 'pending';
CREATE INDEX approvals_pending_of_owner ON approvals (resource_owner, expires_at, operation_id) WHERE state = 'pending';

-- What a decision is about: the operation, its request, and its terms as they are stored.
CREATE FUNCTION approval_digest(o operations) RETURNS bytea
  LANGUAGE sql STABLE AS $$
  SELECT sha256(uuid_send(o.id) || o.request_digest || convert_to(coalesce(o.terms_key_id, ''), 'UTF8') || '\x00'::bytea
    || coalesce(o.terms, ''::bytea))
$$;

-- Whether limits let an operation wait for an approval. A payee is known if it received money under the grant, and did not return it.
-- A payee without a value is not known.
CREATE FUNCTION needs_approval(
  p_sources jsonb, p_grant uuid, p_client text, p_type text, p_currency text, p_amount numeric, p_payee bytea
) RETURNS boolean
  LANGUAGE plpgsql STABLE AS $$
DECLARE
  d jsonb;
BEGIN
  FOR d IN SELECT jsonb_path_query(p_sources, '$[*][*] ? (exists (@.approval))') LOOP
    CONTINUE WHEN d ? 'operation_types' AND NOT d -> 'operation_types' ? p_type;
    IF d -> 'approval' ? 'above' AND coalesce(p_amount > (
      SELECT (a ->> 'amount')::numeric FROM jsonb_array_elements(d -> 'approval' -> 'above') a WHERE a ->> 'currency' = p_currency
    ), true) THEN
      RETURN true;
    END IF;
    IF d -> 'approval' ? 'new_payees' AND NOT EXISTS (
      SELECT FROM operations o
      WHERE o.grant_id = p_grant AND o.client_id = p_client AND o.limit_payee = p_payee AND o.state = 'succeeded'
        AND NOT EXISTS (SELECT FROM operation_reversals r WHERE r.operation_id = o.id AND r.client_id = o.client_id)
    ) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END $$;

-- Before the INSERT, after operations_begin, which sets the columns of the workers and names the limits: PostgreSQL fires triggers in the
-- order of their names.
CREATE FUNCTION operations_approval() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF NEW.approval = 'approved' THEN
    RAISE EXCEPTION 'an operation starts without an approval' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.approval IS NULL AND NOT needs_approval(
    NEW.acceptance -> 'limits', NEW.grant_id, NEW.client_id, NEW.type, NEW.limit_currency, NEW.limit_amount, NEW.limit_payee
  ) THEN
    RETURN NEW;
  END IF;
  NEW.approval := 'pending';
  NEW.under_review := true;
  NEW.hold_placed := true;
  -- It was never claimable, so it was never sent: see 0020_unsent_operations.sql.
  SELECT history INTO NEW.unsent_in FROM ledger_home;
  RETURN NEW;
END $$;

-- After the INSERT, so that an INSERT that meets a conflict and does nothing asks for nothing.
CREATE FUNCTION operations_approval_asked() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO approvals (operation_id, client_id, resource_owner, request_digest, created_at, expires_at)
  VALUES (NEW.id, NEW.client_id, NEW.resource_owner, approval_digest(NEW), NEW.created_at, NEW.created_at + interval '24 hours');
  RETURN NULL;
END $$;

-- Before the UPDATE, and before the other triggers. No release ends the hold of an operation that waits, and no hand claims it: what may
-- have been sent in another history of the ledger passes, so that its outcome can be recorded.
CREATE FUNCTION operations_approval_stays() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF NEW.limit_payee IS DISTINCT FROM OLD.limit_payee THEN
    RAISE EXCEPTION 'the payee of operation % never changes', OLD.id USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.approval IS DISTINCT FROM OLD.approval THEN
    IF (OLD.approval = 'pending' AND NEW.approval = 'approved' AND NEW.state = 'accepted' AND EXISTS (
      SELECT FROM approvals a WHERE a.operation_id = OLD.id AND a.client_id = OLD.client_id AND a.state = 'approved'
    )) IS NOT TRUE THEN
      RAISE EXCEPTION 'only a recorded decision approves operation %', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
  ELSIF NEW.state = 'accepted' THEN
    NEW.hold_placed := true;
  ELSIF NEW.state = 'submitting' AND OLD.state = 'accepted' AND is_unsent(OLD) THEN
    RAISE EXCEPTION 'operation % waits for an approval', OLD.id USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

-- The history of an approved operation names its approval, where the worker claims it.
CREATE FUNCTION operations_approval_told() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  NEW.evidence := approval_evidence(OLD.id, OLD.client_id);
  RETURN NEW;
END $$;

CREATE FUNCTION approval_evidence(p_operation uuid, p_client text) RETURNS json
  LANGUAGE sql STABLE AS $$
  SELECT json_strip_nulls(json_build_object('by', 'approval', 'decision', a.state, 'decided_as', a.decided_as, 'decider', a.decider,
    'reason', a.reason, 'decided_at', to_char(a.decided_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
  FROM approvals a WHERE a.operation_id = p_operation AND a.client_id = p_client
$$;

-- After the UPDATE that ends an operation which waited.
CREATE FUNCTION operations_approval_ends() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE approvals a SET state = 'ended'
  WHERE a.operation_id = NEW.id AND a.client_id = NEW.client_id AND a.state = 'pending';
  RETURN NULL;
END $$;

-- Before the UPDATE of an approval: one decision, in time, about the same request and terms, while its operation was provably never sent.
CREATE FUNCTION approvals_decide() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  o operations;
BEGIN
  IF (NEW.operation_id, NEW.client_id, NEW.resource_owner, NEW.request_digest, NEW.created_at, NEW.expires_at)
    IS DISTINCT FROM
     (OLD.operation_id, OLD.client_id, OLD.resource_owner, OLD.request_digest, OLD.created_at, OLD.expires_at)
  THEN
    RAISE EXCEPTION 'the request of an approval never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.state <> 'pending' OR NEW.state = 'pending' THEN
    RAISE EXCEPTION 'the approval of operation % has one decision', OLD.operation_id USING ERRCODE = 'restrict_violation';
  END IF;
  SELECT * INTO o FROM operations p WHERE p.id = OLD.operation_id AND p.client_id = OLD.client_id FOR NO KEY UPDATE;
  -- The start of the transaction, as for the code: what it finds in time is in time here, too.
  NEW.decided_at := date_trunc('milliseconds', now());
  IF NEW.state = 'ended' THEN
    IF o.state = 'accepted' THEN
      RAISE EXCEPTION 'operation % still waits for its approval', OLD.operation_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
  END IF;
  -- No transaction that is kept open decides long after the end.
  IF (NEW.state = 'expired') IS DISTINCT FROM (OLD.expires_at <= NEW.decided_at)
    OR NEW.state <> 'expired' AND OLD.expires_at + interval '1 minute' <= clock_timestamp()
  THEN
    RAISE EXCEPTION 'the approval of operation % ends at %', OLD.operation_id, OLD.expires_at USING ERRCODE = 'restrict_violation';
  END IF;
  IF o.approval IS DISTINCT FROM 'pending' OR approval_digest(o) <> OLD.request_digest OR NOT is_unsent(o) THEN
    RAISE EXCEPTION 'operation % may have been sent: no decision is possible', OLD.operation_id USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

-- After the UPDATE of an approval: its effect on the operation.
CREATE FUNCTION approvals_decided() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF NEW.state = 'approved' THEN
    UPDATE operations o
    SET approval = 'approved', hold_placed = false, due_at = date_trunc('milliseconds', now()), waiting = false, under_review = false,
      reviewed_at = now()
    WHERE o.id = NEW.operation_id AND o.client_id = NEW.client_id;
  ELSE
    UPDATE operations o
    SET state = 'cancelled', revision = o.revision + 1, evidence = approval_evidence(NEW.operation_id, NEW.client_id)
    WHERE o.id = NEW.operation_id AND o.client_id = NEW.client_id;
  END IF;
  RETURN NULL;
END $$;

-- As operations_unsent of 0020_unsent_operations.sql. Where another operation is released, one that waits for an approval stays held, and
-- gets a new proof. It needs what the release of one operation needs: an examination on this timeline, and that no earlier claim
-- holder can send any more.
CREATE FUNCTION operations_unsent_proof() RETURNS trigger
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
    AND (OLD.approval = 'pending' AND NOT NEW.acknowledged AND NEW.examined_timeline IS NULL
      AND OLD.examined_timeline = ledger_timeline() AND OLD.send_before <= now()) IS NOT TRUE
  THEN
    RAISE EXCEPTION 'only the hold of an operation that could be claimed proves that operation % was never sent', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

-- The functions find the tables in the present schema, not by the search path of the caller.
DO $path$
DECLARE
  f regproc;
BEGIN
  FOREACH f IN ARRAY ARRAY['needs_approval', 'operations_approval', 'operations_approval_asked', 'operations_approval_stays',
    'operations_approval_told', 'operations_approval_ends', 'approval_evidence', 'approvals_decide', 'approvals_decided',
    'approval_digest', 'operations_unsent_proof']::regproc[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f::regprocedure, current_schema());
  END LOOP;
END $path$;
-- A session keeps its plans, also those that it made while the tables were small.
ALTER FUNCTION needs_approval SET enable_seqscan = off;
REVOKE ALL ON FUNCTION operations_approval(), operations_approval_asked(), operations_approval_stays(), operations_approval_told(),
  operations_approval_ends(), approvals_decide(), approvals_decided() FROM PUBLIC;

DROP TRIGGER operations_unsent ON operations;
DROP FUNCTION operations_unsent();
CREATE TRIGGER operations_unsent BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.unsent_in IS NOT NULL OR NEW.unsent_in IS NOT NULL
    OR NEW.state IN ('failed', 'cancelled') AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL))
  EXECUTE FUNCTION operations_unsent_proof();
CREATE TRIGGER operations_approval BEFORE INSERT ON operations FOR EACH ROW
  WHEN (NEW.acceptance @? '$.limits[*][*].approval' OR NEW.approval IS NOT NULL) EXECUTE FUNCTION operations_approval();
CREATE TRIGGER operations_approval_asked AFTER INSERT ON operations FOR EACH ROW
  WHEN (NEW.approval = 'pending') EXECUTE FUNCTION operations_approval_asked();
CREATE TRIGGER operations_approval_stays BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.approval = 'pending' OR NEW.approval IS DISTINCT FROM OLD.approval OR NEW.limit_payee IS DISTINCT FROM OLD.limit_payee)
  EXECUTE FUNCTION operations_approval_stays();
CREATE TRIGGER operations_approval_told BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.approval = 'approved' AND OLD.state = 'accepted' AND NEW.state = 'submitting' AND NEW.evidence IS NULL)
  EXECUTE FUNCTION operations_approval_told();
CREATE TRIGGER operations_approval_ends AFTER UPDATE ON operations FOR EACH ROW
  WHEN (OLD.approval = 'pending' AND OLD.state = 'accepted' AND NEW.state <> 'accepted')
  EXECUTE FUNCTION operations_approval_ends();
-- As of operation_history.
CREATE TRIGGER approvals_guard BEFORE INSERT ON approvals
  FOR EACH STATEMENT WHEN (pg_trigger_depth() < 1) EXECUTE FUNCTION refuse_statement('acceptances write it');
CREATE TRIGGER approvals_decide BEFORE UPDATE ON approvals FOR EACH ROW EXECUTE FUNCTION approvals_decide();
CREATE TRIGGER approvals_decided AFTER UPDATE ON approvals FOR EACH ROW
  WHEN (NEW.state <> 'ended') EXECUTE FUNCTION approvals_decided();
CREATE TRIGGER approvals_permanent BEFORE DELETE OR TRUNCATE ON approvals
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('approvals are permanent');
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_unsent;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_approval;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_approval_asked;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_approval_stays;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_approval_told;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_approval_ends;
ALTER TABLE approvals ENABLE ALWAYS TRIGGER approvals_guard;
ALTER TABLE approvals ENABLE ALWAYS TRIGGER approvals_decide;
ALTER TABLE approvals ENABLE ALWAYS TRIGGER approvals_decided;
ALTER TABLE approvals ENABLE ALWAYS TRIGGER approvals_permanent;

-- Decisions are actions, also those of owners.
ALTER TABLE operator_actions
  DROP CONSTRAINT operator_actions_via_check,
  ADD CONSTRAINT operator_actions_via_check CHECK (via IN ('console', 'command', 'owner')),
  DROP CONSTRAINT operator_actions_action_check,
  ADD CONSTRAINT operator_actions_action_check CHECK (
    action IN ('review', 'end_review', 'hold', 'release', 'cancel', 'hold_all', 'release_all', 'advance', 'show_terms', 'approve', 'deny')
  );
