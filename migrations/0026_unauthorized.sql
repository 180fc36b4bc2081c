-- Accepted operations that nothing allows to send, such as after a revocation, for operators.
CREATE INDEX operations_unauthorized ON operations (provider, updated_at) WHERE waiting AND state = 'accepted';
