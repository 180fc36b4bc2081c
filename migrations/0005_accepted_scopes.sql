-- What the accepting grant allowed when it accepted. To be sent, an operation needs a grant that allows all of it, and the
-- accepting one may be narrowed later.
ALTER TABLE operations ADD COLUMN scopes text[] NOT NULL DEFAULT '{}';

-- It matters until the claim. What was accepted before this is taken for what its grant allows today.
ALTER TABLE operations DISABLE TRIGGER operations_transition;
UPDATE operations o SET scopes = g.scopes
FROM grants g WHERE g.id = o.grant_id AND g.client_id = o.client_id AND o.state = 'accepted';
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition;

CREATE FUNCTION operations_scopes() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    RAISE EXCEPTION 'what was allowed when operation % was accepted never changes', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  EXECUTE format('SELECT scopes FROM %I.grants WHERE id = $1 AND client_id = $2', TG_TABLE_SCHEMA)
    INTO NEW.scopes USING NEW.grant_id, NEW.client_id;
  RETURN NEW;
END $$;
CREATE TRIGGER operations_scopes_accept BEFORE INSERT ON operations
  FOR EACH ROW EXECUTE FUNCTION operations_scopes();
CREATE TRIGGER operations_scopes BEFORE UPDATE ON operations
  FOR EACH ROW WHEN (NEW.scopes IS DISTINCT FROM OLD.scopes) EXECUTE FUNCTION operations_scopes();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_scopes_accept;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_scopes;
