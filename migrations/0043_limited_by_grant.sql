-- Whether the grant had limits at the acceptance. A reserved amount alone does not tell: the access token may have had them.

-- Null for operations of earlier versions: then a reserved amount counts as one of the grant.
ALTER TABLE operations ADD COLUMN limited_by_grant boolean;

-- Before the INSERT, after operations_accept, which names the limits of the grant and then those of the credential in NEW.acceptance, and
-- before operations_limits, which erases them: PostgreSQL fires triggers in the order of their names.
CREATE FUNCTION operations_begin_limited() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.limited_by_grant := coalesce(jsonb_typeof(NEW.acceptance -> 'limits' -> 0) <> 'null', false);
  NEW.hold_outlasts_approval := false;
  RETURN NEW;
END $$;

CREATE TRIGGER operations_accept_limited BEFORE INSERT ON operations FOR EACH ROW EXECUTE FUNCTION operations_begin_limited();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_accept_limited;
