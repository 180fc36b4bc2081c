-- The account at the provider that the settings of the worker named at the claim, so before the first send: `account` of the adapter. The
-- answer of another account proves nothing about the operation. Null: the adapter names none, or no claim is known.
ALTER TABLE operations ADD COLUMN provider_account text;
-- Not valid: no row has the column yet.
ALTER TABLE operations ADD CONSTRAINT operations_provider_account_check
  CHECK (provider_account IS NULL OR state <> 'accepted') NOT VALID;

CREATE FUNCTION operations_provider_account() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'the account of operation % changes only with a claim', OLD.id USING ERRCODE = 'restrict_violation';
END $$;

-- A returned claim sent nothing, so that its take-over may name another account.
CREATE TRIGGER operations_provider_account BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (NEW.provider_account IS DISTINCT FROM OLD.provider_account
    AND NOT (NEW.state = 'submitting' AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL AND NEW.return_reason IS NULL)))
  EXECUTE FUNCTION operations_provider_account();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_provider_account;
