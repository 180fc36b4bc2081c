-- Clients, provider connections, grants, and the access tokens of the gateway.
--
-- Tables that grow with use carry client_id in their keys, so that they can be sharded by client.
--
-- ENABLE ALWAYS, here and in the files that follow, keeps triggers on under session_replication_role = replica.

CREATE TABLE clients (
  id text PRIMARY KEY CHECK (id ~ '^[\x21-\x7e]{1,255}$'),
  active boolean NOT NULL DEFAULT true,
  created_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp())
);

-- The connection of one resource owner to one upstream provider.
CREATE TABLE provider_connections (
  id uuid PRIMARY KEY,
  resource_owner text NOT NULL CHECK (resource_owner ~ '^[\x21-\x7e]{1,255}$'),
  provider text NOT NULL CHECK (provider ~ '^[\x21-\x7e]{1,255}$'),
  connected boolean NOT NULL DEFAULT true,
  created_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  UNIQUE (resource_owner, provider),
  -- Target of the foreign key of grants: a grant has the owner of its provider connection.
  UNIQUE (id, resource_owner)
);

CREATE TABLE grants (
  id uuid NOT NULL,
  client_id text NOT NULL REFERENCES clients (id),
  resource_owner text NOT NULL CHECK (resource_owner ~ '^[\x21-\x7e]{1,255}$'),
  subject text NOT NULL CHECK (subject ~ '^[\x21-\x7e]{1,255}$'),
  provider_connection_id uuid NOT NULL,
  -- Each operation keeps a copy, and tokens add scopes. The limits are `scopeLimits` in the code.
  scopes text[] NOT NULL CONSTRAINT grants_scopes_bounded CHECK (
    cardinality(scopes) <= 100 AND length(array_to_string(scopes, ' ')) <= 4096 AND array_position(scopes, NULL) IS NULL
  ),
  created_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  -- The code cannot read infinite instants, and none beyond the year 9999.
  expires_at timestamptz(3) NOT NULL CHECK (isfinite(expires_at) AND expires_at < '10000-01-01T00:00:00Z'),
  revoked_at timestamptz(3),
  -- The authorization server, and its id of the grant. Null: the gateway issued the grant itself.
  issuer text CHECK (issuer ~ '^[\x21-\x7e]{1,255}$'),
  external_id text CHECK (external_id ~ '^[\x21-\x7e]{1,255}$'),
  -- When an event of the authorization server first registered the grant. From then on no token adds to it.
  registered_by_event_at timestamptz(3),
  PRIMARY KEY (id, client_id),
  FOREIGN KEY (provider_connection_id, resource_owner) REFERENCES provider_connections (id, resource_owner),
  -- Target of the foreign key of operations: an operation has the client, owner, subject and connection of its grant.
  UNIQUE (id, client_id, resource_owner, subject, provider_connection_id),
  UNIQUE (client_id, issuer, external_id),
  CHECK ((issuer IS NULL) = (external_id IS NULL)),
  CHECK (registered_by_event_at IS NULL OR issuer IS NOT NULL)
);

-- Claims and status reads look for a live grant of the same owner, client, subject and provider connection.
CREATE INDEX grants_by_owner ON grants (client_id, resource_owner, subject, provider_connection_id);
-- Revocations by subject or by client look for live grants.
CREATE INDEX grants_by_subject ON grants (client_id, issuer, subject) WHERE revoked_at IS NULL;
-- A revocation that finds no grant looks whether the issuer is known, and whether the client is known to the issuer.
CREATE INDEX grants_by_issuer ON grants (issuer, client_id) WHERE issuer IS NOT NULL;

-- Only the SHA-256 of a token is stored: a reader of this table cannot use it.
CREATE TABLE access_tokens (
  digest bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
  grant_id uuid NOT NULL,
  client_id text NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  FOREIGN KEY (grant_id, client_id) REFERENCES grants (id, client_id)
);

-- The identity of a grant never changes, and a revocation is final: verifiers and readers rely on both.
CREATE FUNCTION grants_guard() RETURNS trigger
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
    -- The operator chooses the names of the roles, so the right to revoke tells them apart.
    IF NOT has_column_privilege(TG_RELID, 'revoked_at', 'UPDATE') AND (
      OLD.registered_by_event_at IS NOT NULL OR NOT NEW.scopes @> OLD.scopes OR NEW.expires_at < OLD.expires_at
    ) THEN
      RAISE EXCEPTION 'a role that may not revoke only adds scopes and time, and only until an event registers the grant'
        USING ERRCODE = 'restrict_violation';
    END IF;
  END IF;
  -- The clock of the database sets these times, never the caller.
  IF NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
    NEW.revoked_at := date_trunc('milliseconds', clock_timestamp());
  END IF;
  IF NEW.registered_by_event_at IS DISTINCT FROM OLD.registered_by_event_at THEN
    NEW.registered_by_event_at := date_trunc('milliseconds', clock_timestamp());
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER grants_guard BEFORE UPDATE ON grants FOR EACH ROW EXECUTE FUNCTION grants_guard();
ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_guard;

-- For statements that a table never allows. The argument is the reason.
CREATE FUNCTION refuse_statement() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% on % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'restrict_violation';
END $$;

-- Otherwise a deleted grant could be issued again, without its revocation.
CREATE TRIGGER grants_permanent BEFORE DELETE OR TRUNCATE ON grants
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('a grant is revoked, never deleted');
ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_permanent;

-- Verifiers cache the grant of a token.
CREATE TRIGGER access_tokens_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON access_tokens
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('a token names the same grant for ever');
ALTER TABLE access_tokens ENABLE ALWAYS TRIGGER access_tokens_immutable;
