-- DPoP proofs that were used. A proof is accepted once (RFC 9449 §11.1), so each stays here until it is too old for
-- acceptance.

CREATE TABLE dpop_proofs (
  -- SHA-256 over the thumbprint of the key and the `jti` of the DPoP proof.
  digest bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
  expires_at timestamptz(3) NOT NULL CHECK (isfinite(expires_at))
);
CREATE INDEX dpop_proofs_by_expiry ON dpop_proofs (expires_at);
