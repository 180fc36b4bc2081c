-- Why a worker put an accepted operation off. Until now one whose payload key the worker lacks counted as unauthorized.

-- The worker may send it, and lacks its key, or found plain text. It counts while the operation is accepted and `waiting`.
ALTER TABLE operations ADD COLUMN lacks_key boolean NOT NULL DEFAULT false;

-- The build stops the traffic. So a ledger of more than 100,000 operations keeps the index that it has, which serves the same counts.
DO $index$
BEGIN
  IF EXISTS (SELECT FROM operations OFFSET 100000) THEN
    RETURN;
  END IF;
  DROP INDEX operations_unauthorized;
  CREATE INDEX operations_put_off ON operations (provider, lacks_key, updated_at) WHERE waiting AND state = 'accepted';
END $index$;
