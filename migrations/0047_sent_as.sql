-- How the adapter sent the operation, as far as a later proof rests on it: `sentAs` of the promises. "Not found" and a fence prove nothing about
-- an operation that another version of the adapter sent, such as without the key. Null: no proof rests on it, or no claim names it. So it is of
-- the claims of earlier workers, also after this migration: a person is asked about those that the provider does not find.
ALTER TABLE operations ADD COLUMN sent_as text;
-- Not valid: no row has the column yet.
ALTER TABLE operations ADD CONSTRAINT operations_sent_as_check CHECK (sent_as IS NULL OR state <> 'accepted') NOT VALID;

-- That of 0032_provider_accounts.sql, for both. To forget how it was sent is safe at any time.
DROP TRIGGER operations_provider_account ON operations;
CREATE TRIGGER operations_provider_account BEFORE UPDATE ON operations FOR EACH ROW
  WHEN ((NEW.provider_account IS DISTINCT FROM OLD.provider_account OR NEW.sent_as IS DISTINCT FROM OLD.sent_as AND NEW.sent_as IS NOT NULL)
    AND NOT (NEW.state = 'submitting' AND (OLD.state = 'accepted' OR OLD.return_reason IS NOT NULL AND NEW.return_reason IS NULL)))
  EXECUTE FUNCTION operations_provider_account();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_provider_account;
