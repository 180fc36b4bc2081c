-- Why a worker put an accepted operation off. Until now one whose payload key the worker lacks counted as unauthorized.

-- The worker may send it, and lacks its key, or found plain text. It counts while the operation is accepted and `waiting`.
ALTER TABLE operations ADD COLUMN lacks_key boolean NOT NULL DEFAULT false;

DROP INDEX operations_unauthorized;
CREATE INDEX operations_put_off ON operations (provider, lacks_key, updated_at) WHERE waiting AND state = 'accepted';
