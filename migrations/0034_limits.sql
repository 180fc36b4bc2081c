-- Limits of grants (`authorization_details`, RFC 9396). The statement that accepts reserves amounts, and the end of an operation that moved
-- no money releases them. `services/rules/limits.ts` has the same rules for the ledger in memory.

ALTER TABLE grants ADD COLUMN authorization_details jsonb;
ALTER TABLE operations
  -- It has a reservation: its grant or the credential had limits.
  ADD COLUMN is_limited boolean NOT NULL DEFAULT false;

-- One row for each reservation and each release, append-only. A window is a sum over an index, so a release waits for no lock.
CREATE TABLE limit_entries (
  operation_id uuid NOT NULL,
  client_id text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('reservation', 'release')),
  grant_id uuid NOT NULL,
  type text NOT NULL,
  currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  -- Of a release: the negative amount of its reservation.
  amount numeric NOT NULL CHECK (abs(amount) < 'Infinity' AND CASE kind WHEN 'release' THEN amount <= 0 ELSE amount >= 0 END),
  -- When the operation was accepted, also of a release: both fall into the same window.
  reserved_at timestamptz(3) NOT NULL,
  PRIMARY KEY (operation_id, client_id, kind)
);
CREATE INDEX limit_entries_by_grant ON limit_entries (grant_id, currency, reserved_at) INCLUDE (type, amount);

-- Acceptances with limits take turns by a row for each grant. No other row can serve: acceptances share their locks of those.
CREATE TABLE limit_locks (
  grant_id uuid NOT NULL,
  client_id text NOT NULL,
  PRIMARY KEY (grant_id, client_id)
);

-- The first instant of a day in a time zone. Where clocks go back over midnight, PostgreSQL takes the second one.
CREATE FUNCTION local_midnight(p_day timestamp, p_zone text) RETURNS timestamptz
  LANGUAGE sql STABLE
  RETURN (p_day AT TIME ZONE p_zone) - CASE
    WHEN ((p_day AT TIME ZONE p_zone) - interval '1 hour') AT TIME ZONE p_zone = p_day THEN interval '1 hour'
    ELSE interval '0' END;

-- The limits of a grant and of a credential, one row each, in their order. `since` is null for the most of one operation. Otherwise the
-- window is [since, until), and resets_at is null where no window follows.
CREATE FUNCTION limits_of(p_grant jsonb, p_credential jsonb, p_at timestamptz)
  RETURNS TABLE (n bigint, types text[], currency text, amount numeric, value jsonb, since timestamptz, until timestamptz,
    resets_at timestamptz)
  LANGUAGE sql STABLE ROWS 5 AS $$
  SELECT row_number() OVER (ORDER BY d.source, d.place, l.is_budget, l.place),
    CASE WHEN d.detail ? 'operation_types' THEN ARRAY(SELECT jsonb_array_elements_text(d.detail -> 'operation_types')) END,
    l.value ->> 'currency', (l.value ->> 'amount')::numeric, l.value, w.since, w.until,
    CASE WHEN w.until < 'infinity' THEN w.until END
  FROM (
    SELECT 1, place, detail FROM jsonb_array_elements(p_grant) WITH ORDINALITY AS g (detail, place)
    UNION ALL
    SELECT 2, place, detail FROM jsonb_array_elements(p_credential) WITH ORDINALITY AS c (detail, place)
  ) AS d (source, place, detail)
  CROSS JOIN LATERAL (
    SELECT false, place, value FROM jsonb_array_elements(d.detail -> 'max_amount') WITH ORDINALITY AS m (value, place)
    UNION ALL
    SELECT true, place, value FROM jsonb_array_elements(d.detail -> 'budgets') WITH ORDINALITY AS b (value, place)
  ) AS l (is_budget, place, value)
  CROSS JOIN LATERAL (SELECT coalesce(l.value ->> 'time_zone', 'UTC'), l.value ->> 'per') AS z (zone, per)
  CROSS JOIN LATERAL (
    -- Without a result for other windows: DATE_TRUNC would fail.
    SELECT CASE WHEN z.per IN ('day', 'week', 'month') THEN date_trunc(z.per, p_at AT TIME ZONE z.zone) END
  ) AS f (first_day)
  CROSS JOIN LATERAL (
    SELECT CASE
        WHEN NOT l.is_budget THEN NULL
        WHEN z.per = 'grant' THEN '-infinity'
        -- The limit of a window is a millisecond, the resolution of the ledger, behind the instant that is just too early.
        WHEN l.value ? 'rolling' THEN p_at + interval '1 millisecond'
          - CASE z.per WHEN 'day' THEN interval '24 hours' WHEN 'week' THEN interval '168 hours' ELSE interval '720 hours' END
        ELSE local_midnight(f.first_day, z.zone)
      END,
      CASE WHEN z.per = 'grant' OR l.value ? 'rolling' THEN 'infinity'
        ELSE local_midnight(f.first_day + ('1 ' || z.per)::interval, z.zone) END
    -- Once for each row: UNTIL is used twice.
    OFFSET 0
  ) AS w (since, until)
$$;

-- What a grant has reserved in a window, and not released.
CREATE FUNCTION reserved_amount(p_grant uuid, p_currency text, p_types text[], p_since timestamptz, p_until timestamptz)
  RETURNS numeric
  LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(e.amount), 0) FROM limit_entries e
  WHERE e.grant_id = p_grant AND e.currency = p_currency AND e.reserved_at >= p_since AND e.reserved_at < p_until
    AND (p_types IS NULL OR e.type = ANY (p_types))
$$;

-- Takes the lock of the grant's limits, and returns the refusals of a batch of requests (`limits.findRefusal` in the code). A request whose
-- key is bound, or that its provider refuses, reserves nothing. It is VOLATILE, so that its statements see what was committed before the
-- lock was taken: the snapshot of the accepting statement is older.
--
-- p_keys is null for a request that the provider refuses, p_amounts for one without terms. p_payees has the SHA-256 of each payee.
CREATE FUNCTION reserve_limits(
  p_grant uuid, p_client text, p_credential jsonb, p_keys text[], p_types text[], p_amounts numeric[],
  p_currencies text[], p_payees bytea[]
) RETURNS TABLE (request bigint, refusal jsonb)
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1 AS $$
DECLARE
  v_details jsonb;
  v_subject text;
  v_remaining numeric[];
  v_limits jsonb[];
  v_resets timestamptz[];
  v_currencies text[];
  v_types jsonb[];
  v_taken text[] := '{}';
  v_least bigint;
  n bigint;
  r record;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'operations of grants with limits are accepted at READ COMMITTED, not at %',
      upper(current_setting('transaction_isolation')) USING ERRCODE = 'invalid_transaction_state';
  END IF;
  PERFORM FROM limit_locks k WHERE k.grant_id = p_grant AND k.client_id = p_client FOR UPDATE NOWAIT;
  IF NOT FOUND THEN
    -- The INSERT would wait for another first acceptance, and hold its connection meanwhile.
    IF NOT pg_try_advisory_xact_lock(hashtextextended(p_grant || ' ' || p_client, 33)) THEN
      RAISE EXCEPTION 'another acceptance of the grant is first' USING ERRCODE = 'lock_not_available';
    END IF;
    INSERT INTO limit_locks (grant_id, client_id) VALUES (p_grant, p_client) ON CONFLICT DO NOTHING;
    PERFORM FROM limit_locks k WHERE k.grant_id = p_grant AND k.client_id = p_client FOR UPDATE NOWAIT;
  END IF;
  SELECT g.authorization_details, g.subject INTO v_details, v_subject
  FROM grants g WHERE g.id = p_grant AND g.client_id = p_client;
  SELECT array_agg(l.amount - CASE WHEN l.since IS NULL THEN 0
      ELSE reserved_amount(p_grant, l.currency, l.types, l.since, l.until) END ORDER BY l.n),
    array_agg(l.value ORDER BY l.n), array_agg(l.resets_at ORDER BY l.n), array_agg(l.currency ORDER BY l.n),
    array_agg(to_jsonb(l.types) ORDER BY l.n)
  INTO v_remaining, v_limits, v_resets, v_currencies, v_types
  -- The resolution of the ledger is a millisecond.
  FROM limits_of(v_details, p_credential, date_trunc('milliseconds', clock_timestamp())) l;
  FOR r IN
    WITH detail AS MATERIALIZED (
      SELECT d.source, d.place, d.detail,
        CASE WHEN d.detail ? 'operation_types' THEN ARRAY(SELECT jsonb_array_elements_text(d.detail -> 'operation_types')) END
          AS types
      FROM (
        SELECT 1, place, detail FROM jsonb_array_elements(v_details) WITH ORDINALITY AS g (detail, place)
        UNION ALL
        SELECT 2, place, detail FROM jsonb_array_elements(p_credential) WITH ORDINALITY AS c (detail, place)
      ) AS d (source, place, detail)
    ), payee AS MATERIALIZED (
      SELECT d.source, d.place, sha256(convert_to(p, 'UTF8')) AS hash
      FROM detail d CROSS JOIN LATERAL jsonb_array_elements_text(d.detail -> 'payees') p
    )
    SELECT q.request, q.key, q.amount,
      CASE
        WHEN EXISTS (
          SELECT FROM (VALUES (1, v_details), (2, p_credential)) AS s (source, details)
          WHERE s.details IS NOT NULL AND NOT EXISTS (
            SELECT FROM detail d WHERE d.source = s.source AND (d.types IS NULL OR q.type = ANY (d.types))
          )
        ) THEN 'operation_type'
        WHEN q.amount IS NULL THEN 'terms'
        WHEN EXISTS (
          SELECT FROM detail d
          WHERE (d.types IS NULL OR q.type = ANY (d.types)) AND d.detail ?| ARRAY['max_amount', 'budgets']
            AND NOT coalesce(d.detail -> 'max_amount', '[]') || coalesce(d.detail -> 'budgets', '[]')
              @> jsonb_build_array(jsonb_build_object('currency', q.currency))
        ) THEN 'currency'
        WHEN EXISTS (
          SELECT FROM detail d
          WHERE (d.types IS NULL OR q.type = ANY (d.types)) AND d.detail ? 'payees'
            AND (d.source, d.place, q.payee) NOT IN (SELECT p.source, p.place, p.hash FROM payee p)
        ) THEN 'payee'
      END AS reason,
      ARRAY(
        SELECT a.n FROM unnest(v_currencies, v_types) WITH ORDINALITY AS a (currency, types, n)
        WHERE a.currency = q.currency AND (a.types IS NULL OR a.types ? q.type) ORDER BY a.n
      ) AS limits
    FROM unnest(p_keys, p_types, p_amounts, p_currencies, p_payees)
      WITH ORDINALITY AS q (key, type, amount, currency, payee, request)
    WHERE q.key IS NOT NULL AND NOT EXISTS (
      SELECT FROM operations o WHERE o.idempotency_key = q.key AND o.client_id = p_client AND o.subject = v_subject
      OFFSET 0
    )
    ORDER BY q.request
  LOOP
    CONTINUE WHEN r.key = ANY (v_taken);
    request := r.request;
    IF r.reason IS NOT NULL THEN
      refusal := jsonb_build_object('reason', r.reason);
      RETURN NEXT;
      CONTINUE;
    END IF;
    v_least := NULL;
    FOREACH n IN ARRAY r.limits LOOP
      IF v_remaining[n] < r.amount AND (v_least IS NULL OR v_remaining[n] < v_remaining[v_least]) THEN
        v_least := n;
      END IF;
    END LOOP;
    IF v_least IS NOT NULL THEN
      refusal := jsonb_build_object('reason', 'limit', 'limit', v_limits[v_least],
        'remaining', greatest(v_remaining[v_least], 0)::text,
        'resets_at', extract(epoch FROM v_resets[v_least]) * 1000);
      RETURN NEXT;
      CONTINUE;
    END IF;
    v_taken := v_taken || r.key;
    FOREACH n IN ARRAY r.limits LOOP
      -- The most of one operation is no sum.
      IF v_limits[n] ? 'per' THEN
        v_remaining[n] := v_remaining[n] - r.amount;
      END IF;
    END LOOP;
  END LOOP;
END $$;

-- After the INSERT of an entry: it is that of its operation, and a reservation exceeds no limit of the grant. `reserve_limits` has decided
-- before; this holds for every other program.
CREATE FUNCTION limit_entries_check() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_details jsonb;
BEGIN
  IF NOT EXISTS (
    SELECT FROM operations o
    WHERE o.id = NEW.operation_id AND o.client_id = NEW.client_id AND o.grant_id = NEW.grant_id AND o.type = NEW.type
      AND o.created_at = NEW.reserved_at AND o.is_limited
      AND CASE WHEN NEW.kind = 'reservation' THEN o.state = 'accepted' AND o.revision = 1
        ELSE o.state IN ('failed', 'cancelled') AND EXISTS (
          SELECT FROM limit_entries e
          WHERE e.operation_id = NEW.operation_id AND e.client_id = NEW.client_id AND e.kind = 'reservation'
            AND e.currency = NEW.currency AND e.amount = -NEW.amount
        ) END
  ) THEN
    RAISE EXCEPTION 'an entry of the operation % does not fit it', NEW.operation_id USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.kind = 'release' THEN
    RETURN NULL;
  END IF;
  -- With an older snapshot the sums would lack what was committed before the lock was taken.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'operations of grants with limits are accepted at READ COMMITTED, not at %',
      upper(current_setting('transaction_isolation')) USING ERRCODE = 'invalid_transaction_state';
  END IF;
  PERFORM FROM limit_locks k WHERE k.grant_id = NEW.grant_id AND k.client_id = NEW.client_id FOR UPDATE NOWAIT;
  IF NOT FOUND THEN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(NEW.grant_id || ' ' || NEW.client_id, 33)) THEN
      RAISE EXCEPTION 'another acceptance of the grant is first' USING ERRCODE = 'lock_not_available';
    END IF;
    INSERT INTO limit_locks (grant_id, client_id) VALUES (NEW.grant_id, NEW.client_id) ON CONFLICT DO NOTHING;
    PERFORM FROM limit_locks k WHERE k.grant_id = NEW.grant_id AND k.client_id = NEW.client_id FOR UPDATE NOWAIT;
  END IF;
  SELECT g.authorization_details INTO v_details
  FROM grants g WHERE g.id = NEW.grant_id AND g.client_id = NEW.client_id;
  IF v_details IS NULL THEN
    RETURN NULL;
  END IF;
  -- Not the payee: its text is sealed.
  IF NOT coalesce((
    SELECT bool_and(
      NOT d.detail ?| ARRAY['max_amount', 'budgets']
      OR coalesce(d.detail -> 'max_amount', '[]') || coalesce(d.detail -> 'budgets', '[]')
        @> jsonb_build_array(jsonb_build_object('currency', NEW.currency))
    )
    FROM jsonb_array_elements(v_details) AS d (detail)
    WHERE NOT d.detail ? 'operation_types' OR d.detail -> 'operation_types' ? NEW.type
  ), false) THEN
    RAISE EXCEPTION 'the limits of a grant do not cover a reservation' USING ERRCODE = 'restrict_violation';
  END IF;
  IF EXISTS (
    SELECT FROM limits_of(v_details, NULL, NEW.reserved_at) l
    WHERE l.currency = NEW.currency AND (l.types IS NULL OR NEW.type = ANY (l.types))
      AND l.amount < CASE WHEN l.since IS NULL THEN NEW.amount
        ELSE reserved_amount(NEW.grant_id, l.currency, l.types, l.since, l.until) END
  ) THEN
    RAISE EXCEPTION 'a reservation exceeds a limit of its grant' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$;

-- After the INSERT of operations, once for a statement. Its reservations are there by then: PostgreSQL fires such triggers at the end of
-- the whole statement.
CREATE FUNCTION operations_reserved() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF EXISTS (
    SELECT FROM added a
    WHERE (a.is_limited OR (
        SELECT g.authorization_details IS NOT NULL FROM grants g WHERE g.id = a.grant_id AND g.client_id = a.client_id
      )) AND (
        SELECT e.amount FROM limit_entries e
        WHERE e.operation_id = a.id AND e.client_id = a.client_id AND e.kind = 'reservation'
      ) IS NULL
  ) THEN
    RAISE EXCEPTION 'an operation of a grant with limits needs a reservation' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NULL;
END $$;

-- After the UPDATE that ends a limited operation without a movement of money.
CREATE FUNCTION operations_released() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO limit_entries (operation_id, client_id, kind, grant_id, type, currency, amount, reserved_at)
  SELECT e.operation_id, e.client_id, 'release', e.grant_id, e.type, e.currency, -e.amount, e.reserved_at
  FROM limit_entries e
  WHERE e.operation_id = NEW.id AND e.client_id = NEW.client_id AND e.kind = 'reservation';
  RETURN NULL;
END $$;

-- A grant gets only limits that can be enforced: PostgreSQL may lack a time zone that the code knows.
CREATE FUNCTION grants_limits() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.issuer IS NULL THEN
    RAISE EXCEPTION 'the limits of a grant that the gateway issued never change: issue a new grant'
      USING ERRCODE = 'restrict_violation';
  END IF;
  PERFORM FROM limits_of(NEW.authorization_details, NULL, clock_timestamp()) l WHERE l.amount > 0 AND l.since IS NULL;
  RETURN NEW;
END $$;

-- The functions find the tables in the present schema, not by the search path of the caller.
DO $path$
DECLARE
  f regproc;
BEGIN
  FOREACH f IN ARRAY ARRAY['limits_of', 'reserved_amount', 'reserve_limits', 'limit_entries_check',
    'operations_reserved', 'operations_released', 'grants_limits']::regproc[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f::regprocedure, current_schema());
  END LOOP;
END $path$;
-- Plans for the lengths of the arrays would be made at each call, which costs more than the work.
ALTER FUNCTION reserve_limits SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION limit_entries_check SET plan_cache_mode = force_generic_plan;
-- A session keeps its plans, also those that it made while the tables were small.
ALTER FUNCTION reserve_limits SET enable_seqscan = off;
ALTER FUNCTION limit_entries_check SET enable_seqscan = off;
ALTER FUNCTION reserved_amount SET enable_seqscan = off;
ALTER FUNCTION operations_released SET enable_seqscan = off;
REVOKE ALL ON FUNCTION reserve_limits(uuid, text, jsonb, text[], text[], numeric[], text[], bytea[]), limit_entries_check(),
  operations_reserved(), operations_released() FROM PUBLIC;

CREATE TRIGGER limit_entries_check AFTER INSERT ON limit_entries
  FOR EACH ROW EXECUTE FUNCTION limit_entries_check();
CREATE TRIGGER limit_entries_permanent BEFORE UPDATE OR DELETE OR TRUNCATE ON limit_entries
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('entries of limits are append-only');
CREATE TRIGGER operations_reserved AFTER INSERT ON operations REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION operations_reserved();
CREATE TRIGGER operations_released AFTER UPDATE ON operations FOR EACH ROW
  WHEN (NEW.is_limited AND NEW.state IN ('failed', 'cancelled') AND OLD.state IS DISTINCT FROM NEW.state)
  EXECUTE FUNCTION operations_released();
CREATE TRIGGER operations_limited BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (NEW.is_limited IS DISTINCT FROM OLD.is_limited)
  EXECUTE FUNCTION refuse_statement('an operation keeps its reservation');
CREATE TRIGGER grants_limits BEFORE INSERT ON grants FOR EACH ROW
  WHEN (NEW.authorization_details IS NOT NULL) EXECUTE FUNCTION grants_limits();
CREATE TRIGGER grants_limits_change BEFORE UPDATE ON grants FOR EACH ROW
  WHEN (NEW.authorization_details IS DISTINCT FROM OLD.authorization_details) EXECUTE FUNCTION grants_limits();
ALTER TABLE limit_entries ENABLE ALWAYS TRIGGER limit_entries_check;
ALTER TABLE limit_entries ENABLE ALWAYS TRIGGER limit_entries_permanent;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_reserved;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_released;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_limited;
ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_limits;
ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_limits_change;
