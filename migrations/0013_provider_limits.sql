-- Rate limits of providers: which slots of a limit are reserved, and until when a provider asked for a pause.

-- One row for each provider with a limit, made by the first reservation. Workers reserve slots by an UPDATE of the row, so the limit
-- holds across all of them, and a restart forgets nothing. Each reservation makes a new version of the row in its own page.
CREATE TABLE provider_limits (
  provider text PRIMARY KEY CHECK (length(provider) BETWEEN 1 AND 255),
  -- Microseconds since 1970, by the clock of the database: the instant after the spacing of the last slot of each lane. The rules
  -- are in `services/internal/providerSlots.ts`.
  shared_until bigint NOT NULL DEFAULT 0,
  reads_until bigint NOT NULL DEFAULT 0,
  -- The end of the pause that the provider asked for by Retry-After.
  closed_until bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);
