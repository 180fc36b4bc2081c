-- Limits of grants of authorization servers: a registration gives them, once. They never change, as those of grants that the gateway
-- issued.

CREATE TRIGGER grants_limits_stay BEFORE UPDATE ON grants FOR EACH ROW
  WHEN (OLD.authorization_details IS NOT NULL AND NEW.authorization_details IS DISTINCT FROM OLD.authorization_details)
  EXECUTE FUNCTION refuse_statement('the limits of a grant never change');
ALTER TABLE grants ENABLE ALWAYS TRIGGER grants_limits_stay;

-- Gives limits to a grant that has none.
CREATE FUNCTION limit_grant(p_issuer text, p_grant text, p_client text, p_details jsonb) RETURNS void
  LANGUAGE sql AS $$
  UPDATE grants g SET authorization_details = p_details
  WHERE g.id = external_grant_id(p_issuer, p_client, p_grant) AND g.client_id = p_client AND g.authorization_details IS NULL
$$;

-- As provision_grant, with the limits of the team. A grant that has limits keeps them: tokens arrive in any order.
CREATE FUNCTION provision_limited_grant(
  p_issuer text, p_grant text, p_client text, p_subject text, p_owner text, p_provider text, p_scopes text[],
  p_expires_at timestamptz, p_granted_at timestamptz, p_new_connection uuid, p_details jsonb
) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '250ms' AS $$
DECLARE
  v_outcome text := provision_grant(p_issuer, p_grant, p_client, p_subject, p_owner, p_provider, p_scopes, p_expires_at, p_granted_at,
    p_new_connection);
BEGIN
  IF v_outcome = 'registered' THEN
    PERFORM limit_grant(p_issuer, p_grant, p_client, p_details);
  END IF;
  RETURN v_outcome;
END $$;

-- As register_grant, with the limits of the event. A grant with other limits is a conflict.
CREATE FUNCTION register_limited_grant(
  p_issuer text, p_grant text, p_client text, p_subject text, p_owner text, p_provider text, p_scopes text[],
  p_expires_at timestamptz, p_granted_at timestamptz, p_new_connection uuid, p_details jsonb
) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '5s' AS $$
DECLARE
  v_outcome text;
BEGIN
  v_outcome := register_grant(p_issuer, p_grant, p_client, p_subject, p_owner, p_provider, p_scopes, p_expires_at, p_granted_at,
    p_new_connection);
  IF v_outcome = 'registered' THEN
    PERFORM limit_grant(p_issuer, p_grant, p_client, p_details);
    IF EXISTS (
      SELECT FROM grants g
      WHERE g.id = external_grant_id(p_issuer, p_client, p_grant) AND g.client_id = p_client AND g.authorization_details <> p_details
    ) THEN
      RAISE SQLSTATE 'FG001';
    END IF;
  END IF;
  RETURN v_outcome;
EXCEPTION
  WHEN SQLSTATE 'FG001' THEN
    RETURN 'conflict';
END $$;

-- As the functions of 0008_grant_functions.sql.
DO $path$
DECLARE
  f regproc;
BEGIN
  FOREACH f IN ARRAY ARRAY['limit_grant', 'provision_limited_grant', 'register_limited_grant']::regproc[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f::regprocedure, current_schema());
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f::regprocedure);
  END LOOP;
END $path$;
