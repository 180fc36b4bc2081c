-- Reversals of succeeded operations, such as the return of a payment by the receiving bank. The operation stays `succeeded`: a reversal
-- is evidence for operators, and no client sees it.

-- One row at most for each operation, append-only.
CREATE TABLE operation_reversals (
  operation_id uuid NOT NULL,
  client_id text NOT NULL,
  provider text NOT NULL,
  -- No role of the gateway may set it.
  recorded_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
  -- The answer of the provider, and the failure that it stands for.
  evidence json NOT NULL CHECK (json_typeof(evidence) = 'object' AND evidence::text !~ '^\s*\{\s*\}\s*$'),
  PRIMARY KEY (operation_id, client_id)
);
CREATE INDEX operation_reversals_by_time ON operation_reversals (recorded_at);

-- An operation that succeeded stays so, hence the rule holds for ever.
CREATE FUNCTION operation_reversals_record() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (
    SELECT FROM operations o WHERE (o.id, o.client_id, o.provider) = (NEW.operation_id, NEW.client_id, NEW.provider)
      AND o.state = 'succeeded'
  ) THEN
    RAISE EXCEPTION 'operation % has not succeeded, so nothing reverses it', NEW.operation_id
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

-- The function finds the table in the present schema, not by the search path of the caller.
DO $path$
BEGIN
  EXECUTE format('ALTER FUNCTION operation_reversals_record() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END $path$;

CREATE TRIGGER operation_reversals_record BEFORE INSERT ON operation_reversals
  FOR EACH ROW EXECUTE FUNCTION operation_reversals_record();
CREATE TRIGGER operation_reversals_permanent BEFORE UPDATE OR DELETE OR TRUNCATE ON operation_reversals
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('the record of reversals is append-only');
ALTER TABLE operation_reversals ENABLE ALWAYS TRIGGER operation_reversals_record;
ALTER TABLE operation_reversals ENABLE ALWAYS TRIGGER operation_reversals_permanent;

-- Which succeeded operations are read again, because their provider may reverse them. The row of the operation itself is final. The
-- record of the success adds the row, and it goes with the reversal or with the last read.
CREATE TABLE reversal_reads (
  operation_id uuid NOT NULL,
  client_id text NOT NULL,
  provider text NOT NULL,
  due_at timestamptz(3) NOT NULL CHECK (isfinite(due_at)),
  -- The first read that begins then or later is the last one.
  until timestamptz(3) NOT NULL CHECK (isfinite(until)),
  -- As in operations.
  reading_since timestamptz(3),
  hinted_at timestamptz(3) CHECK (isfinite(hinted_at)),
  PRIMARY KEY (operation_id, client_id)
);
CREATE INDEX reversal_reads_due ON reversal_reads (provider, due_at);
