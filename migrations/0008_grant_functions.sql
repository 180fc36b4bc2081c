-- Functions that register and revoke grants. Most run with the rights of the owner of the schema, so that a role can call
-- them without rights on the tables.
--
-- Registrations and revocations of one client take turns: see grant_locks.

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
    -- This lock queues behind a waiting revocation. A shared lock would pass it, and a stream of registrations could pass
    -- it for ever.
    PERFORM FROM grant_locks WHERE client_id = p_client FOR NO KEY UPDATE;
  ELSE
    PERFORM FROM grant_locks WHERE client_id = p_client FOR SHARE;
  END IF;
END $$;

-- Above READ COMMITTED, the statements after a lock would not see commits that were made during the wait.
CREATE FUNCTION require_read_committed() RETURNS void
  LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'grants are registered and revoked at READ COMMITTED, not at %',
      upper(current_setting('transaction_isolation')) USING ERRCODE = 'invalid_transaction_state';
  END IF;
END $$;

-- The id of a grant of an authorization server: `externalGrantId` in the code. The database computes it, so that no caller
-- chooses the grant that it changes.
CREATE FUNCTION external_grant_id(p_issuer text, p_client text, p_grant text) RETURNS uuid
  LANGUAGE sql IMMUTABLE AS $$
  SELECT encode(set_byte(set_byte(d, 6, (get_byte(d, 6) & 15) | 128), 8, (get_byte(d, 8) & 63) | 128), 'hex')::uuid
  FROM (
    SELECT substr(sha256(convert_to(string_agg(length(name) || ':' || name, '' ORDER BY place), 'UTF8')), 1, 16)
    FROM unnest(ARRAY[p_issuer, p_client, p_grant]) WITH ORDINALITY AS n (name, place)
  ) AS s (d)
$$;

-- Registers a grant, and returns `registered`. It writes nothing and returns `conflict` if the grant is known with another
-- identity, and `scopes` if the grant would have too many. `mergeRegistration` in the code has the rules for known grants.
CREATE FUNCTION write_grant(
  p_issuer text, p_grant text, p_client text, p_subject text, p_owner text, p_provider text, p_scopes text[],
  p_expires_at timestamptz, p_granted_at timestamptz, p_new_connection uuid, p_by_event boolean
) RETURNS text
  LANGUAGE plpgsql AS $$
DECLARE
  v_id uuid := external_grant_id(p_issuer, p_client, p_grant);
  v_constraint text;
BEGIN
  PERFORM require_read_committed();
  PERFORM lock_grants(p_client, false);
  INSERT INTO clients (id) VALUES (p_client) ON CONFLICT DO NOTHING;
  INSERT INTO provider_connections (id, resource_owner, provider) VALUES (p_new_connection, p_owner, p_provider)
    ON CONFLICT DO NOTHING;
  INSERT INTO grants (id, client_id, resource_owner, subject, provider_connection_id, scopes, expires_at, issuer,
    external_id, registered_by_event_at, revoked_at)
  SELECT v_id, p_client, p_owner, p_subject, p.id, p_scopes, p_expires_at, p_issuer, p_grant,
    CASE WHEN p_by_event THEN date_trunc('milliseconds', clock_timestamp()) END, (
      -- Four conditions on all columns of the index, because one client may have any number of revocations.
      SELECT min(r.revoked_at) FROM grant_revocations r
      WHERE (
          (r.client_id = p_client AND r.issuer = p_issuer AND r.external_id = p_grant AND r.subject IS NULL)
          OR (r.client_id = p_client AND r.issuer = p_issuer AND r.external_id IS NULL AND r.subject = p_subject)
          OR (r.client_id = p_client AND r.issuer = p_issuer AND r.external_id IS NULL AND r.subject IS NULL)
          OR (r.client_id = p_client AND r.issuer IS NULL)
        )
        -- A revocation without external_id covers grants up to this time (`revocationMargin`), and those of unknown time.
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

-- Registers a grant that a token shows. The caller is a request, and others wait behind it: so the wait for locks is short.
CREATE FUNCTION provision_grant(
  p_issuer text, p_grant text, p_client text, p_subject text, p_owner text, p_provider text, p_scopes text[],
  p_expires_at timestamptz, p_granted_at timestamptz, p_new_connection uuid
) RETURNS text
  LANGUAGE sql SECURITY DEFINER SET lock_timeout = '250ms' AS $$
  SELECT write_grant(p_issuer, p_grant, p_client, p_subject, p_owner, p_provider, p_scopes, p_expires_at, p_granted_at,
    p_new_connection, false)
$$;

-- Registers a grant with the scopes and the end of an event of its authorization server.
CREATE FUNCTION register_grant(
  p_issuer text, p_grant text, p_client text, p_subject text, p_owner text, p_provider text, p_scopes text[],
  p_expires_at timestamptz, p_granted_at timestamptz, p_new_connection uuid
) RETURNS text
  LANGUAGE sql SECURITY DEFINER SET lock_timeout = '5s' AS $$
  SELECT write_grant(p_issuer, p_grant, p_client, p_subject, p_owner, p_provider, p_scopes, p_expires_at, p_granted_at,
    p_new_connection, true)
$$;

-- Revokes grants of a client: all, or those of an issuer, or of an issuer one grant or those of one subject. Returns the
-- number of grants that this call revoked. Without p_wait it waits for no registration and skips locked grants. Another
-- call with p_wait revokes the rest.
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

-- Revokes a grant, or sets `active` of a client or `connected` of a provider connection, after a first attempt found the
-- row locked. Acceptances share their locks of rows, so later ones pass a change that waits for a row, and a stream of
-- them could pass it for ever. They queue behind the lock of a table, and reads do not. Returns whether it changed a row.
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

-- The functions find the tables in the present schema, not by the search path of the caller. Only roles with EXECUTE may
-- call them: `src/services/sql/roles.ts`.
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
