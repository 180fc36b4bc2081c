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
  IF (NEW.id, NEW.client_id, NEW.resource_owner, NEW.subject, NEW.provider_binding_id, NEW.created_at, NEW.issuer,
      NEW.external_id)
    IS DISTINCT FROM
    (OLD.id, OLD.client_id, OLD.resource_owner, OLD.subject, OLD.provider_binding_id, OLD.created_at, OLD.issuer,
      OLD.external_id)
  THEN
    RAISE EXCEPTION 'the identity of a grant never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
    RAISE EXCEPTION 'a revocation is final: issue a new grant' USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.registered_by_event_at IS NOT NULL AND NEW.registered_by_event_at IS DISTINCT FROM OLD.registered_by_event_at
  THEN
    RAISE EXCEPTION 'what an event said of a grant is not unsaid' USING ERRCODE = 'restrict_violation';
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
-- There is no primary key with columns that may be null, and replication needs to tell rows apart all the same.
ALTER TABLE grant_revocations REPLICA IDENTITY FULL;

CREATE FUNCTION grant_revocations_guard() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.client_id, NEW.issuer, NEW.external_id, NEW.subject)
    IS DISTINCT FROM (OLD.client_id, OLD.issuer, OLD.external_id, OLD.subject)
  THEN
    RAISE EXCEPTION 'what was revoked never changes' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.revoked_at < OLD.revoked_at THEN
    RAISE EXCEPTION 'a revocation is only ever renewed' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER grant_revocations_guard BEFORE UPDATE ON grant_revocations
  FOR EACH ROW EXECUTE FUNCTION grant_revocations_guard();
CREATE TRIGGER grant_revocations_permanent BEFORE DELETE OR TRUNCATE ON grant_revocations
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('a revocation is final');
ALTER TABLE grant_revocations ENABLE ALWAYS TRIGGER grant_revocations_guard;
ALTER TABLE grant_revocations ENABLE ALWAYS TRIGGER grant_revocations_permanent;

-- Proofs that were accepted once and must not be again (RFC 9449 §11.1), until they are too old to be accepted at all.
CREATE TABLE dpop_proofs (
  -- SHA-256 over the thumbprint of the key and the proof's own id.
  digest bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
  expires_at timestamptz(3) NOT NULL CHECK (isfinite(expires_at))
);
CREATE INDEX dpop_proofs_by_expiry ON dpop_proofs (expires_at);
