-- Limits of grants (`authorization_details`, RFC 9396). A limited operation carries what it reserves, and a budget is a sum over an index:
-- an operation that failed or was cancelled is no longer part of it, so nothing has to be given back.
-- `services/rules/limits.ts` has the same rules for the ledger in memory.

ALTER TABLE grants ADD COLUMN authorization_details jsonb;
ALTER TABLE operations
  -- What the operation reserves. Null: neither its grant nor the credential had limits.
  ADD COLUMN limit_amount numeric,
  ADD COLUMN limit_currency text,
  -- What an INSERT tells the triggers: `credential`, its limits; `payee`, the SHA-256 of the payee; `reports`, to report refusals. The
  -- column stays null.
  ADD COLUMN acceptance jsonb,
  -- Not valid: no row has the columns yet.
  ADD CONSTRAINT operations_acceptance_check CHECK (acceptance IS NULL) NOT VALID,
  ADD CONSTRAINT operations_limit_check CHECK (CASE WHEN limit_amount IS NULL THEN limit_currency IS NULL
    ELSE limit_amount >= 0 AND limit_amount < 'Infinity' AND coalesce(limit_currency ~ '^[A-Z]{3}$', false) END) NOT VALID;
CREATE INDEX operations_reserving ON operations (grant_id, client_id, limit_currency, created_at) INCLUDE (type, limit_amount)
  WHERE limit_amount IS NOT NULL AND state NOT IN ('failed', 'cancelled');

-- The first instant of a day in a time zone. Where clocks go back over midnight, PostgreSQL takes the second one.
CREATE FUNCTION local_midnight(p_day timestamp, p_zone text) RETURNS timestamptz
  LANGUAGE sql STABLE
  RETURN (p_day AT TIME ZONE p_zone) - CASE
    WHEN ((p_day AT TIME ZONE p_zone) - interval '1 hour') AT TIME ZONE p_zone = p_day THEN interval '1 hour'
    ELSE interval '0' END;

-- When the window of a budget began at an instant.
CREATE FUNCTION limit_since(p_budget jsonb, p_at timestamptz) RETURNS timestamptz
  LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_zone text := coalesce(p_budget ->> 'time_zone', 'UTC');
BEGIN
  IF p_budget ->> 'per' = 'grant' THEN
    RETURN '-infinity';
  ELSIF p_budget ? 'rolling' THEN
    -- The limit is a millisecond, the resolution of the ledger, behind the instant that is just too early.
    RETURN p_at + interval '1 millisecond' - CASE p_budget ->> 'per'
      WHEN 'day' THEN interval '24 hours' WHEN 'week' THEN interval '168 hours' ELSE interval '720 hours' END;
  END IF;
  RETURN local_midnight(date_trunc(p_budget ->> 'per', p_at AT TIME ZONE v_zone), v_zone);
END $$;

-- When the next window of a limit begins, or null.
CREATE FUNCTION limit_resets_at(p_limit jsonb, p_at timestamptz) RETURNS timestamptz
  LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_limit ->> 'per' <> 'grant' AND NOT p_limit ? 'rolling' THEN local_midnight(
    date_trunc(p_limit ->> 'per', p_at AT TIME ZONE z.zone) + ('1 ' || (p_limit ->> 'per'))::interval, z.zone) END
  FROM coalesce(p_limit ->> 'time_zone', 'UTC') AS z (zone)
$$;

-- What remains of a limit (a budget, or the most of one operation). It is VOLATILE, so that it sees what was committed before its caller took
-- the lock of the grant, and the earlier rows of the INSERT: the snapshot of the accepting statement is older.
CREATE FUNCTION limit_left(p_limit jsonb, p_types jsonb, p_grant uuid, p_client text, p_at timestamptz) RETURNS numeric
  LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_left numeric := p_limit ->> 'amount';
  v_currency text := p_limit ->> 'currency';
  v_since timestamptz;
BEGIN
  IF NOT p_limit ? 'per' THEN
    RETURN v_left;
  END IF;
  v_since := limit_since(p_limit, p_at);
  SELECT v_left - coalesce(sum(o.limit_amount), 0) INTO v_left
  FROM operations o
  WHERE o.grant_id = p_grant AND o.client_id = p_client AND o.limit_currency = v_currency AND o.created_at >= v_since
    AND o.limit_amount IS NOT NULL AND o.state NOT IN ('failed', 'cancelled')
    AND (p_types IS NULL OR p_types ? o.type);
  RETURN v_left;
END $$;

-- Why limits refuse an operation, or null (`findRefusal` in the code). p_sources has the limits of the grant and of the credential, or JSON
-- null. p_amount is null without terms. p_payee is the SHA-256 of the payee in hexadecimal digits; null: not known, so not checked.
CREATE FUNCTION limit_refusal(
  p_sources jsonb, p_grant uuid, p_client text, p_at timestamptz, p_type text, p_amount numeric, p_currency text, p_payee text
) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  v_source jsonb;
  v_detail jsonb;
  v_limits jsonb;
  v_limit jsonb;
  is_covered boolean;
  has_currency boolean;
  lacks_currency boolean := false;
  lacks_payee boolean := false;
  v_left numeric;
  v_least numeric;
  v_exceeded jsonb;
BEGIN
  FOR s IN 0 .. jsonb_array_length(p_sources) - 1 LOOP
    v_source := p_sources -> s;
    CONTINUE WHEN v_source = 'null';
    is_covered := false;
    FOR d IN 0 .. jsonb_array_length(v_source) - 1 LOOP
      v_detail := v_source -> d;
      CONTINUE WHEN NOT coalesce(v_detail -> 'operation_types' ? p_type, true);
      is_covered := true;
      -- Without terms there is nothing to compare.
      CONTINUE WHEN p_amount IS NULL;
      IF p_payee IS NOT NULL AND v_detail ? 'payees' THEN
        lacks_payee := lacks_payee OR NOT EXISTS (
          SELECT FROM jsonb_array_elements_text(v_detail -> 'payees') AS p (payee)
          WHERE encode(sha256(convert_to(p.payee, 'UTF8')), 'hex') = p_payee
        );
      END IF;
      v_limits := coalesce(v_detail -> 'max_amount', '[]') || coalesce(v_detail -> 'budgets', '[]');
      has_currency := NOT v_detail ?| ARRAY['max_amount', 'budgets'];
      FOR l IN 0 .. jsonb_array_length(v_limits) - 1 LOOP
        v_limit := v_limits -> l;
        CONTINUE WHEN v_limit ->> 'currency' <> p_currency;
        has_currency := true;
        v_left := limit_left(v_limit, v_detail -> 'operation_types', p_grant, p_client, p_at);
        IF v_left < p_amount AND (v_least IS NULL OR v_left < v_least) THEN
          v_least := v_left;
          v_exceeded := jsonb_build_object('reason', 'limit', 'limit', v_limit, 'remaining', greatest(v_least, 0)::text,
            'resets_at', extract(epoch FROM limit_resets_at(v_limit, p_at)) * 1000);
        END IF;
      END LOOP;
      lacks_currency := lacks_currency OR NOT has_currency;
    END LOOP;
    IF NOT is_covered THEN
      RETURN '{"reason": "operation_type"}';
    END IF;
  END LOOP;
  RETURN CASE
    WHEN p_amount IS NULL THEN '{"reason": "terms"}'
    WHEN lacks_currency THEN '{"reason": "currency"}'
    WHEN lacks_payee THEN '{"reason": "payee"}'
    ELSE v_exceeded
  END;
END $$;

-- Before the INSERT: operations_accept of 0006_operation_rules.sql, which reads the limits of the grant, too.
CREATE FUNCTION operations_begin() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  v_limits jsonb;
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
  SELECT ledger_timeline(), h.change_offset + pg_current_xact_id()::text::bigint, p.provider, g.scopes, g.authorization_details
  INTO NEW.timeline, NEW.change_position, NEW.provider, NEW.scopes, v_limits
  FROM ledger_home h
  LEFT JOIN provider_connections p ON p.id = NEW.provider_connection_id
  LEFT JOIN grants g ON g.id = NEW.grant_id AND g.client_id = NEW.client_id;
  IF v_limits IS NOT NULL OR NEW.acceptance IS NOT NULL THEN
    -- The triggers of limits and approvals get those of the grant, then those of the credential.
    NEW.acceptance := coalesce(NEW.acceptance, '{}')
      || jsonb_build_object('limits', jsonb_build_array(v_limits, NEW.acceptance -> 'credential'));
  END IF;
  RETURN NEW;
END $$;

-- Before the INSERT, after operations_begin, which names the limits in NEW.acceptance. It runs with the rights of the owner: a role needs
-- none to lock. The accepting statement gets reports of what limits refuse, in a setting of the transaction, and answers a repetition by its
-- key; every other program gets an error.
CREATE FUNCTION operations_limits() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_refusal jsonb;
BEGIN
  -- With an older snapshot the sums would lack what was committed before the lock was taken.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'operations of grants with limits are accepted at READ COMMITTED, not at %',
      upper(current_setting('transaction_isolation')) USING ERRCODE = 'invalid_transaction_state';
  END IF;
  -- Acceptances of one grant take turns until the end of their transactions, and wait for none.
  IF NOT pg_try_advisory_xact_lock(hashtextextended(NEW.grant_id || ' ' || NEW.client_id, 33)) THEN
    RAISE EXCEPTION 'the limits of the grant are locked by another acceptance' USING ERRCODE = 'lock_not_available';
  END IF;
  v_refusal := limit_refusal(NEW.acceptance -> 'limits', NEW.grant_id, NEW.client_id, NEW.created_at, NEW.type, NEW.limit_amount,
    NEW.limit_currency, NEW.acceptance ->> 'payee');
  IF v_refusal IS NOT NULL THEN
    IF NOT NEW.acceptance ? 'reports' THEN
      RAISE EXCEPTION 'the limits of a grant do not permit an operation: %', v_refusal ->> 'reason'
        USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM set_config('financial_agents_gateway.refusals', (coalesce(
      nullif(current_setting('financial_agents_gateway.refusals', true), '')::jsonb, '[]'
    ) || jsonb_build_object('id', NEW.id, 'refusal', v_refusal))::text, true);
    RETURN NULL;
  END IF;
  NEW.acceptance := NULL;
  RETURN NEW;
END $$;

-- What remains of the limits of a grant and of a credential, as JSON.
CREATE FUNCTION remaining_limits(p_grant uuid, p_client text, p_credential jsonb) RETURNS jsonb
  LANGUAGE sql VOLATILE SECURITY DEFINER AS $$
  SELECT coalesce(
    jsonb_agg(jsonb_build_object('types', d.detail -> 'operation_types', 'limit', l.value, 'remaining', greatest(limit_left(l.value,
      d.detail -> 'operation_types', p_grant, p_client, a.at), 0)::text,
      'resets_at', extract(epoch FROM limit_resets_at(l.value, a.at)) * 1000) ORDER BY s.place, d.place, l.place), '[]')
  FROM (
    SELECT 1, g.authorization_details FROM grants g WHERE g.id = p_grant AND g.client_id = p_client
    UNION ALL SELECT 2, p_credential
  ) AS s (place, details)
  CROSS JOIN LATERAL jsonb_array_elements(s.details) WITH ORDINALITY AS d (detail, place)
  CROSS JOIN LATERAL jsonb_array_elements(
    coalesce(d.detail -> 'max_amount', '[]') || coalesce(d.detail -> 'budgets', '[]')
  ) WITH ORDINALITY AS l (value, place)
  CROSS JOIN date_trunc('milliseconds', clock_timestamp()) AS a (at)
$$;

-- A grant gets only limits that can be enforced: PostgreSQL may lack a time zone that the code knows.
CREATE FUNCTION grants_limits() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.issuer IS NULL THEN
    RAISE EXCEPTION 'the limits of a grant that the gateway issued never change: issue a new grant'
      USING ERRCODE = 'restrict_violation';
  END IF;
  PERFORM limit_since(b, clock_timestamp()) FROM jsonb_path_query(NEW.authorization_details, '$[*].budgets[*]') AS b;
  RETURN NEW;
END $$;

-- The functions that callers reach find the tables in the present schema, not by the search path of the caller. A session keeps its plans,
-- also those that it made while the table was small: they must not read all operations.
DO $path$
DECLARE
  f regproc;
BEGIN
  FOREACH f IN ARRAY ARRAY['operations_begin', 'operations_limits', 'remaining_limits', 'grants_limits']::regproc[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f::regprocedure, current_schema());
    EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', f::regprocedure);
  END LOOP;
END $path$;
REVOKE ALL ON FUNCTION operations_limits(), remaining_limits(uuid, text, jsonb) FROM PUBLIC;

DROP TRIGGER operations_accept ON operations;
DROP FUNCTION operations_accept();
CREATE TRIGGER operations_accept BEFORE INSERT ON operations FOR EACH ROW EXECUTE FUNCTION operations_begin();
CREATE TRIGGER operations_limits BEFORE INSERT ON operations FOR EACH ROW
  WHEN (NEW.acceptance IS NOT NULL) EXECUTE FUNCTION operations_limits();
CREATE TRIGGER operations_limit_stays BEFORE UPDATE ON operations FOR EACH ROW
  WHEN ((NEW.limit_amount, NEW.limit_currency) IS DISTINCT FROM (OLD.limit_amount, OLD.limit_currency))
  EXECUTE FUNCTION refuse_statement('an operation keeps what it reserves');
CREATE TRIGGER grants_limits BEFORE INSERT ON grants FOR EACH ROW
  WHEN (NEW.authorization_details IS NOT NULL) EXECUTE FUNCTION grants_limits();
CREATE TRIGGER grants_limits_change BEFORE UPDATE ON grants FOR EACH ROW
  WHEN (NEW.authorization_details IS DISTINCT FROM OLD.authorization_details) EXECUTE FUNCTION grants_limits();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_accept;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_limits;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_limit_stays;
ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_limits;
ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_limits_change;
