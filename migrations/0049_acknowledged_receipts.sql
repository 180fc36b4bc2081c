-- The acknowledgement of a provider may come while a status read asks it, and changes no revision. The "not found" of that read then ends nothing:
-- the next read decides. Workers of earlier versions do not ask for it, so their record fails, and the read is repeated.
CREATE FUNCTION operations_acknowledged() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the provider has acknowledged operation %: it cannot fail as never received', OLD.id
    USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER operations_acknowledged BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (OLD.acknowledged AND NEW.state <> OLD.state AND NEW.failure_code = 'provider_never_received')
  EXECUTE FUNCTION operations_acknowledged();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_acknowledged;
