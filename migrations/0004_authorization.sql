-- Authorization servers: grants that are theirs, revocations that outrun the grant they are about, and DPoP proofs that
-- were shown before.

ALTER TABLE grants
  -- The authorization server and its own name for the grant; null for what the gateway issued itself.
  ADD COLUMN issuer text CHECK (issuer ~ '^[\x21-\x7e]{1,255}$'),
  ADD COLUMN external_id text CHECK (external_id ~ '^[\x21-\x7e]{1,255}$'),
  -- When an event of the authorization server first spoke for the grant: no token adds to it since.
  ADD COLUMN registered_by_event_at timestamptz(3),
  ADD CHECK (registered_by_event_at IS NULL OR issuer IS NOT NULL),
  ADD CHECK ((issuer IS NULL) = (external_id IS NULL)),
  ADD UNIQUE (client_id, issuer, external_id);

-- What a revocation by subject or by client has to look for.
CREATE INDEX grants_by_subject ON grants (client_id, issuer, subject) WHERE revoked_at IS NULL;

CREATE OR REPLACE FUNCTION grants_guard() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.provider_connection_id, NEW.created_at, NEW.issuer,
      NEW.external_id)
    IS DISTINCT FROM
    (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.provider_connection_id, OLD.created_at, OLD.issuer,
      OLD.external_id)
  THEN
    RAISE EXCEPTION 'the identity of a grant never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
    RAISE EXCEPTION 'a revocation is final: issue a new grant' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.registered_by_event_at IS NOT NULL AND NEW.registered_by_event_at IS DISTINCT FROM OLD.registered_by_event_at
  THEN
    RAISE EXCEPTION 'registered_by_event_at is immutable once set' USING ERRCODE = 'restrict_violation';
  END IF;
  IF (NEW.scopes, NEW.expires_at) IS DISTINCT FROM (OLD.scopes, OLD.expires_at) THEN
    IF OLD.issuer IS NULL THEN
      RAISE EXCEPTION 'scopes and end of a grant that the gateway issued never change: issue a new grant'
        USING ERRCODE = 'restrict_violation';
    END IF;
    -- The roles are told apart by the right to revoke, because their names are the operator's.
    IF NOT has_column_privilege(TG_RELID, 'revoked_at', 'UPDATE') AND (
      OLD.registered_by_event_at IS NOT NULL OR NOT NEW.scopes @> OLD.scopes OR NEW.expires_at < OLD.expires_at
    ) THEN
      RAISE EXCEPTION 'a role that may not revoke only adds scopes and time, and only until an event spoke for the grant'
        USING ERRCODE = 'restrict_violation';
    END IF;
  END IF;
  -- The database's clock dates them, not the caller's.
  IF NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
    NEW.revoked_at := date_trunc('milliseconds', clock_timestamp());
  END IF;
  IF NEW.registered_by_event_at IS DISTINCT FROM OLD.registered_by_event_at THEN
    NEW.registered_by_event_at := date_trunc('milliseconds', clock_timestamp());
  END IF;
  RETURN NEW;
END $$;

-- A revocation may arrive before the gateway has seen the grant, and must hold when an old token shows it later. Nothing
-- here refers to clients or grants, because neither need be known.
CREATE TABLE grant_revocations (
  client_id text NOT NULL CHECK (client_id ~ '^[\x21-\x7e]{1,255}$'),
  -- Null: whoever issued the grant.
  issuer text CHECK (issuer ~ '^[\x21-\x7e]{1,255}$'),
  -- One grant, for ever; or else everything of a subject or, without one, of the client, that was granted until then.
  external_id text CHECK (external_id ~ '^[\x21-\x7e]{1,255}$'),
  subject text CHECK (subject ~ '^[\x21-\x7e]{1,255}$'),
  revoked_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  UNIQUE NULLS NOT DISTINCT (client_id, issuer, external_id, subject),
  CHECK (external_id IS NULL OR subject IS NULL),
  CHECK (issuer IS NOT NULL OR (external_id IS NULL AND subject IS NULL))
);
-- What `lock_grants` looks for.
CREATE INDEX grant_revocations_by_time ON grant_revocations (client_id, revoked_at);
-- There is no primary key with columns that may be null, and replication needs to tell rows apart all the same.
ALTER TABLE grant_revocations REPLICA IDENTITY FULL;

-- The database's clock dates a revocation and its renewal: a date ahead of it would mean grants that are yet to come.
CREATE FUNCTION grant_revocations_guard() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    NEW.revoked_at := date_trunc('milliseconds', clock_timestamp());
    RETURN NEW;
  END IF;
  IF (NEW.client_id, NEW.issuer, NEW.external_id, NEW.subject)
    IS DISTINCT FROM (OLD.client_id, OLD.issuer, OLD.external_id, OLD.subject)
  THEN
    RAISE EXCEPTION 'what was revoked never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF (NEW.revoked_at >= OLD.revoked_at) IS NOT TRUE THEN
    RAISE EXCEPTION 'a revocation is only ever renewed' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.revoked_at > OLD.revoked_at THEN
    -- Never before the last time, even when the clock was set back.
    NEW.revoked_at := greatest(date_trunc('milliseconds', clock_timestamp()), OLD.revoked_at);
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER grant_revocations_guard BEFORE INSERT OR UPDATE ON grant_revocations
  FOR EACH ROW EXECUTE FUNCTION grant_revocations_guard();
CREATE TRIGGER grant_revocations_permanent BEFORE DELETE OR TRUNCATE ON grant_revocations
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('a revocation is final');
ALTER TABLE grant_revocations ENABLE ALWAYS TRIGGER grant_revocations_guard;
ALTER TABLE grant_revocations ENABLE ALWAYS TRIGGER grant_revocations_permanent;

-- Orders the registrations of a client and its revocations: those share the client's row, these take it alone. A row and
-- not an advisory lock, which any role could take. No role has a privilege here: the functions below lock it.
CREATE TABLE grant_locks (
  client_id text PRIMARY KEY CHECK (client_id ~ '^[\x21-\x7e]{1,255}$')
);

CREATE FUNCTION lock_grants(p_client text, p_alone boolean) RETURNS void
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO grant_locks (client_id) VALUES (p_client) ON CONFLICT DO NOTHING;
  IF p_alone THEN
    PERFORM FROM grant_locks WHERE client_id = p_client FOR UPDATE;
  ELSIF EXISTS (
    SELECT FROM grant_revocations r
    WHERE r.client_id = p_client AND r.revoked_at > clock_timestamp() - interval '5 seconds'
  ) THEN
    -- Behind the revocation that waits: a shared lock would pass it, and a stream of them could for ever.
    PERFORM FROM grant_locks WHERE client_id = p_client FOR NO KEY UPDATE;
  ELSE
    PERFORM FROM grant_locks WHERE client_id = p_client FOR SHARE;
  END IF;
END $$;

-- What comes after a lock must see what was committed while it was waited for.
CREATE FUNCTION require_read_committed() RETURNS void
  LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'grants are registered and revoked at READ COMMITTED, not at %',
      upper(current_setting('transaction_isolation')) USING ERRCODE = 'invalid_transaction_state';
  END IF;
END $$;

-- `externalGrantId` in the code. Computed here, so that no caller chooses the grant that it changes.
CREATE FUNCTION external_grant_id(p_issuer text, p_client text, p_grant text) RETURNS uuid
  LANGUAGE sql IMMUTABLE AS $$
  SELECT encode(set_byte(set_byte(d, 6, (get_byte(d, 6) & 15) | 128), 8, (get_byte(d, 8) & 63) | 128), 'hex')::uuid
  FROM (
    SELECT substr(sha256(convert_to(string_agg(length(name) || ':' || name, '' ORDER BY place), 'UTF8')), 1, 16)
    FROM unnest(ARRAY[p_issuer, p_client, p_grant]) WITH ORDINALITY AS n (name, place)
  ) AS s (d)
$$;

-- Yields `registered`; or, having written nothing, `conflict` when the grant is known with another identity and `scopes`
-- when it would have too many. What a known grant learns is what `mergeRegistration` in the code says.
CREATE FUNCTION write_grant(
  p_issuer text, p_grant text, p_client text, p_subject text, p_owner text, p_provider text, p_scopes text[],
  p_expires_at timestamptz, p_granted_at timestamptz, p_new_binding uuid, p_by_event boolean
) RETURNS text
  LANGUAGE plpgsql AS $$
DECLARE
  v_id uuid := external_grant_id(p_issuer, p_client, p_grant);
  v_constraint text;
BEGIN
  PERFORM require_read_committed();
  PERFORM lock_grants(p_client, false);
  INSERT INTO clients (id) VALUES (p_client) ON CONFLICT DO NOTHING;
  INSERT INTO provider_connections (id, resource_owner, provider) VALUES (p_new_binding, p_owner, p_provider)
    ON CONFLICT DO NOTHING;
  INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at, issuer,
    external_id, registered_by_event_at, revoked_at)
  SELECT v_id, p_client, p_owner, p_subject, p.id, p_scopes, p_expires_at, p_issuer, p_grant,
    CASE WHEN p_by_event THEN date_trunc('milliseconds', clock_timestamp()) END, (
      -- Spelled out for the index: one client may have any number of revocations.
      SELECT min(r.revoked_at) FROM grant_revocations r
      WHERE (
          (r.client_id = p_client AND r.issuer = p_issuer AND r.external_id = p_grant AND r.subject IS NULL)
          OR (r.client_id = p_client AND r.issuer = p_issuer AND r.external_id IS NULL AND r.subject = p_subject)
          OR (r.client_id = p_client AND r.issuer = p_issuer AND r.external_id IS NULL AND r.subject IS NULL)
          OR (r.client_id = p_client AND r.issuer IS NULL)
        )
        -- A revocation of everything until then means grants of this age (`revocationMargin`), or of an unknown one.
        AND (r.external_id IS NOT NULL OR p_granted_at IS NULL
          OR p_granted_at < r.revoked_at + interval '2 seconds')
    )
  FROM provider_connections p WHERE p.resource_owner = p_owner AND p.provider = p_provider
  ON CONFLICT DO NOTHING;
  IF NOT EXISTS (
    SELECT FROM grants g JOIN provider_connections p ON p.id = g.provider_connection_id
    WHERE g.id = v_id AND g.client_id = p_client AND g.subject = p_subject AND p.resource_owner = p_owner
      AND p.provider = p_provider AND g.issuer = p_issuer AND g.external_id = p_grant
  ) THEN
    RAISE SQLSTATE 'FG001';
  END IF;
  IF p_by_event THEN
    UPDATE grants g SET scopes = p_scopes, expires_at = p_expires_at,
      registered_by_event_at = coalesce(g.registered_by_event_at, clock_timestamp())
    WHERE g.id = v_id AND g.client_id = p_client AND (
      g.registered_by_event_at IS NULL OR (g.scopes, g.expires_at) IS DISTINCT FROM (p_scopes, p_expires_at)
    );
  ELSE
    UPDATE grants g SET scopes = g.scopes || ARRAY(SELECT s FROM unnest(p_scopes) s WHERE s <> ALL (g.scopes)),
      expires_at = greatest(g.expires_at, p_expires_at)
    WHERE g.id = v_id AND g.client_id = p_client AND g.registered_by_event_at IS NULL
      -- `leastExtension`
      AND (NOT p_scopes <@ g.scopes OR p_expires_at > g.expires_at + interval '1 hour');
  END IF;
  RETURN 'registered';
EXCEPTION
  WHEN SQLSTATE 'FG001' THEN
    RETURN 'conflict';
  WHEN check_violation THEN
    GET STACKED DIAGNOSTICS v_constraint = CONSTRAINT_NAME;
    IF v_constraint <> 'grants_scopes_bounded' THEN
      RAISE;
    END IF;
    RETURN 'scopes';
END $$;

-- Registers a grant that a token shows. The caller is a request, with others behind it: it does not wait for long.
CREATE FUNCTION provision_grant(
  p_issuer text, p_grant text, p_client text, p_subject text, p_owner text, p_provider text, p_scopes text[],
  p_expires_at timestamptz, p_granted_at timestamptz, p_new_binding uuid
) RETURNS text
  LANGUAGE sql SECURITY DEFINER SET lock_timeout = '250ms' AS $$
  SELECT write_grant(p_issuer, p_grant, p_client, p_subject, p_owner, p_provider, p_scopes, p_expires_at, p_granted_at,
    p_new_binding, false)
$$;

-- Registers a grant as an event of its authorization server says it is.
CREATE FUNCTION register_grant(
  p_issuer text, p_grant text, p_client text, p_subject text, p_owner text, p_provider text, p_scopes text[],
  p_expires_at timestamptz, p_granted_at timestamptz, p_new_binding uuid
) RETURNS text
  LANGUAGE sql SECURITY DEFINER SET lock_timeout = '5s' AS $$
  SELECT write_grant(p_issuer, p_grant, p_client, p_subject, p_owner, p_provider, p_scopes, p_expires_at, p_granted_at,
    p_new_binding, true)
$$;

-- Revokes the grants of a client: all, or those of an issuer, and of that one grant or all of one subject. Yields how many
-- were live. Without p_wait it waits for no registration and leaves grants alone that are locked: what it revokes holds
-- at once, and another call with p_wait revokes the rest.
CREATE FUNCTION revoke_grants(p_client text, p_issuer text, p_grant text, p_subject text, p_wait boolean)
  RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '5s' SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  v_ids uuid[];
  v_count integer;
BEGIN
  PERFORM require_read_committed();
  IF p_wait THEN
    PERFORM lock_grants(p_client, true);
  END IF;
  INSERT INTO grant_revocations AS known (client_id, issuer, external_id, subject)
  VALUES (p_client, p_issuer, p_grant, p_subject)
  ON CONFLICT (client_id, issuer, external_id, subject)
    DO UPDATE SET revoked_at = greatest(known.revoked_at, excluded.revoked_at) WHERE known.external_id IS NULL;
  IF NOT p_wait THEN
    v_ids := ARRAY(
      SELECT g.id FROM grants g
      WHERE g.client_id = p_client AND g.revoked_at IS NULL AND (p_issuer IS NULL OR g.issuer = p_issuer)
        AND (p_grant IS NULL OR g.external_id = p_grant) AND (p_subject IS NULL OR g.subject = p_subject)
      FOR NO KEY UPDATE SKIP LOCKED
    );
  END IF;
  IF p_wait AND EXISTS (
    SELECT FROM grants g
    WHERE g.client_id = p_client AND g.revoked_at IS NULL AND (p_issuer IS NULL OR g.issuer = p_issuer)
      AND (p_grant IS NULL OR g.external_id = p_grant) AND (p_subject IS NULL OR g.subject = p_subject)
  ) THEN
    -- See `change_standing`.
    LOCK TABLE grants IN EXCLUSIVE MODE;
  END IF;
  UPDATE grants g SET revoked_at = clock_timestamp()
  WHERE g.client_id = p_client AND g.revoked_at IS NULL AND (p_issuer IS NULL OR g.issuer = p_issuer)
    AND (p_grant IS NULL OR g.external_id = p_grant) AND (p_subject IS NULL OR g.subject = p_subject)
    AND (p_wait OR g.id = ANY (v_ids));
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_count;
END $$;

-- Revokes a grant, or says whether a client is active or a provider connection is connected, where a first attempt found the
-- row locked. Acceptances share their locks of rows: a change that waits for a row is passed by those that come later, and a
-- stream of them could pass it for ever. They queue behind the lock of a table; reads do not. Yields whether it changed a row.
CREATE FUNCTION change_standing(p_table text, p_id text, p_good boolean) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '5s' AS $$
BEGIN
  CASE p_table
    WHEN 'grants' THEN
      LOCK TABLE grants IN EXCLUSIVE MODE;
      UPDATE grants SET revoked_at = clock_timestamp() WHERE id = p_id::uuid AND revoked_at IS NULL AND NOT p_good;
    WHEN 'clients' THEN
      LOCK TABLE clients IN EXCLUSIVE MODE;
      UPDATE clients SET active = p_good WHERE id = p_id;
    WHEN 'provider_connections' THEN
      LOCK TABLE provider_connections IN EXCLUSIVE MODE;
      UPDATE provider_connections SET connected = p_good WHERE id = p_id::uuid;
  END CASE;
  RETURN FOUND;
END $$;

-- They find the tables where they are now, not by the caller's path. Only the roles that were given a function call it.
DO $path$
DECLARE
  f regproc;
BEGIN
  FOREACH f IN ARRAY ARRAY['lock_grants', 'require_read_committed', 'external_grant_id', 'write_grant',
    'provision_grant', 'register_grant', 'revoke_grants', 'change_standing']::regproc[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f::regprocedure, current_schema());
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f::regprocedure);
  END LOOP;
END $path$;

-- Proofs that were accepted once and must not be again (RFC 9449 §11.1), until they are too old to be accepted at all.
CREATE TABLE dpop_proofs (
  -- SHA-256 over the thumbprint of the key and the proof's own id.
  digest bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
  expires_at timestamptz(3) NOT NULL CHECK (isfinite(expires_at))
);
CREATE INDEX dpop_proofs_by_expiry ON dpop_proofs (expires_at);
