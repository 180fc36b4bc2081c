-- Revocations by the names of an authorization server. A revocation may arrive before the gateway has seen the grant, and
-- must hold when an old token shows the grant later. So nothing here refers to clients or grants.

CREATE TABLE grant_revocations (
  client_id text NOT NULL CHECK (client_id ~ '^[\x21-\x7e]{1,255}$'),
  -- Null: grants of every issuer, and those of the gateway itself.
  issuer text CHECK (issuer ~ '^[\x21-\x7e]{1,255}$'),
  -- With external_id: this one grant, for ever. Without: each grant of the subject (null: of the client) that was given
  -- until revoked_at.
  external_id text CHECK (external_id ~ '^[\x21-\x7e]{1,255}$'),
  subject text CHECK (subject ~ '^[\x21-\x7e]{1,255}$'),
  revoked_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  UNIQUE NULLS NOT DISTINCT (client_id, issuer, external_id, subject),
  CHECK (external_id IS NULL OR subject IS NULL),
  CHECK (issuer IS NOT NULL OR (external_id IS NULL AND subject IS NULL))
);
-- `lock_grants` looks for the latest revocations of a client.
CREATE INDEX grant_revocations_by_time ON grant_revocations (client_id, revoked_at);
-- The columns of a primary key cannot be null, and logical replication needs to identify rows.
ALTER TABLE grant_revocations REPLICA IDENTITY FULL;

-- The clock of the database sets the time of a revocation and of its renewal. A later time would revoke future grants.
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
    RAISE EXCEPTION 'the names of a revocation never change' USING ERRCODE = 'restrict_violation';
  END IF;
  IF (NEW.revoked_at >= OLD.revoked_at) IS NOT TRUE THEN
    RAISE EXCEPTION 'the time of a revocation never goes back' USING ERRCODE = 'restrict_violation';
  END IF;
  IF NEW.revoked_at > OLD.revoked_at THEN
    -- Never before the last time, even if the clock was set back.
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

-- One row for each client. Registrations share its lock, and revocations take it alone. It is a row and no advisory lock,
-- because any role can take those. No role has a privilege here: only the functions of 0008_grant_functions.sql lock it.
CREATE TABLE grant_locks (
  client_id text PRIMARY KEY CHECK (client_id ~ '^[\x21-\x7e]{1,255}$')
);
