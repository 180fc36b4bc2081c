-- The operations that failed, for operators: their queue and counts have those of the last 24 hours, by provider and code. The build reads each
-- operation once. The ordinary way of an operation never adds a row.
CREATE INDEX operations_failed ON operations (provider, failure_code, updated_at, id) WHERE state = 'failed';
