-- Who may read and submit: clients, provider connections, grants and the tokens that name grants.
--
-- Every table that grows with use carries client_id in its keys, so that the tables can be sharded by client.

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
  -- For the grants, whose owner must be that of their binding.
  UNIQUE (id, resource_owner)
);

CREATE TABLE grants (
  id uuid NOT NULL,
  client_id text NOT NULL REFERENCES clients (id),
  resource_owner text NOT NULL CHECK (resource_owner ~ '^[\x21-\x7e]{1,255}$'),
  subject text NOT NULL CHECK (subject ~ '^[\x21-\x7e]{1,255}$'),
  provider_connection_id uuid NOT NULL,
  -- Each operation keeps a copy, and tokens add to it: `scopeLimits` in the code.
  scopes text[] NOT NULL CONSTRAINT grants_scopes_bounded CHECK (
    cardinality(scopes) <= 100 AND length(array_to_string(scopes, ' ')) <= 4096 AND array_position(scopes, NULL) IS NULL
  ),
  created_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  -- Also the code can read it: neither infinite nor beyond the year 9999.
  expires_at timestamptz(3) NOT NULL CHECK (isfinite(expires_at) AND expires_at < '10000-01-01T00:00:00Z'),
  revoked_at timestamptz(3),
  PRIMARY KEY (id, client_id),
  FOREIGN KEY (provider_connection_id, resource_owner) REFERENCES provider_connections (id, resource_owner),
  -- For the operations, which belong to exactly whom their grant speaks for.
  UNIQUE (id, client_id, resource_owner, subject, provider_connection_id)
);

-- Only the SHA-256 of a token is kept: whoever reads this table learns no token.
CREATE TABLE access_tokens (
  digest bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
  grant_id uuid NOT NULL,
  client_id text NOT NULL,
  created_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  FOREIGN KEY (grant_id, client_id) REFERENCES grants (id, client_id)
);

-- Whom a grant speaks for never changes, and a revocation is final: verifiers and readers rely on both.
CREATE FUNCTION grants_guard() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.provider_connection_id, NEW.created_at)
    IS DISTINCT FROM
    (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.provider_connection_id, OLD.created_at)
  THEN
    RAISE EXCEPTION 'the identity of a grant never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
    RAISE EXCEPTION 'a revocation is final: issue a new grant' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER grants_guard BEFORE UPDATE ON grants FOR EACH ROW EXECUTE FUNCTION grants_guard();
ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_guard;

CREATE FUNCTION refuse_statement() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% on % is refused: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'restrict_violation';
END $$;

-- Else a revocation could be undone by issuing the same grant once more.
CREATE TRIGGER grants_permanent BEFORE DELETE OR TRUNCATE ON grants
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('a grant is revoked, never deleted');
ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_permanent;

-- Verifiers remember whom a token speaks for.
CREATE TRIGGER access_tokens_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON access_tokens
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('a token names one grant for ever');
ALTER TABLE access_tokens ENABLE ALWAYS TRIGGER access_tokens_immutable;
