-- Approvals after a failover, a move or a late report; the terms in the digest of a decision; one instant for a decision.

-- What a decision is about: the operation, its request, and its terms as they are stored.
CREATE FUNCTION approval_digest(o operations) RETURNS bytea
  LANGUAGE sql STABLE AS $$
  SELECT sha256(uuid_send(o.id) || o.request_digest || convert_to(coalesce(o.terms_key_id, ''), 'UTF8') || '\x00'::bytea
    || coalesce(o.terms, ''::bytea))
$$;

-- As operations_approval of 0035_approvals.sql, but due at once: after a failover, a reconciler examines the operation as any other.
CREATE FUNCTION operations_approval_needed() RETURNS trigger
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
CREATE FUNCTION operations_approval_request() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO approvals (operation_id, client_id, resource_owner, request_digest, created_at, expires_at)
  VALUES (NEW.id, NEW.client_id, NEW.resource_owner, approval_digest(NEW), NEW.created_at, NEW.created_at + interval '24 hours');
  RETURN NULL;
END $$;

-- Before the UPDATE of an approval: one decision, in time, about the same request and terms, while its operation was provably never sent.
CREATE FUNCTION approvals_decision() RETURNS trigger
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
  FOREACH f IN ARRAY ARRAY['approval_digest', 'operations_approval_needed', 'operations_approval_request', 'approvals_decision',
    'operations_unsent_proof']::regproc[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f::regprocedure, current_schema());
  END LOOP;
END $path$;
REVOKE ALL ON FUNCTION operations_approval_needed(), operations_approval_request(), approvals_decision() FROM PUBLIC;

DROP TRIGGER operations_approval ON operations;
DROP TRIGGER operations_approval_asked ON operations;
DROP TRIGGER operations_unsent ON operations;
DROP TRIGGER approvals_decide ON approvals;
DROP TRIGGER approvals_decided ON approvals;
DROP FUNCTION operations_approval(), operations_approval_asked(), operations_unsent(), approvals_decide();

UPDATE approvals a SET request_digest = approval_digest(o)
FROM operations o WHERE a.state = 'pending' AND o.id = a.operation_id AND o.client_id = a.client_id;
UPDATE operations o SET due_at = o.created_at
FROM approvals a WHERE a.state = 'pending' AND o.id = a.operation_id AND o.client_id = a.client_id AND o.state = 'accepted';

CREATE TRIGGER operations_approval BEFORE INSERT ON operations FOR EACH ROW
  WHEN (NEW.acceptance @? '$.limits[*][*].approval' OR NEW.approval IS NOT NULL) EXECUTE FUNCTION operations_approval_needed();
CREATE TRIGGER operations_approval_asked AFTER INSERT ON operations FOR EACH ROW
  WHEN (NEW.approval = 'pending') EXECUTE FUNCTION operations_approval_request();
CREATE TRIGGER operations_unsent BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.unsent_in IS NOT NULL OR NEW.unsent_in IS NOT NULL
    OR NEW.state IN ('failed', 'cancelled') AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL))
  EXECUTE FUNCTION operations_unsent_proof();
CREATE TRIGGER approvals_decide BEFORE UPDATE ON approvals FOR EACH ROW EXECUTE FUNCTION approvals_decision();
CREATE TRIGGER approvals_decided AFTER UPDATE ON approvals FOR EACH ROW
  WHEN (NEW.state <> 'ended') EXECUTE FUNCTION approvals_decided();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_approval;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_approval_asked;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_unsent;
ALTER TABLE approvals ENABLE ALWAYS TRIGGER approvals_decide;
ALTER TABLE approvals ENABLE ALWAYS TRIGGER approvals_decided;
