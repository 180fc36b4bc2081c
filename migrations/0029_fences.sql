-- A fence occupies the key of an operation at its provider, so that a lost request can never arrive: docs/submission.md. Its beginning is
-- recorded before it is sent. From then on a read by the key may find the order of the fence, so the record never changes.
ALTER TABLE operations
  ADD COLUMN fence_started_at timestamptz(3),
  -- When the last fence has ended, at the latest: its orders have left by then. Each fence moves it to the end of its lease.
  ADD COLUMN fencing_until timestamptz(3);
-- Not valid: no row has the columns yet.
ALTER TABLE operations ADD CONSTRAINT operations_fence_started_at_check
  CHECK (fence_started_at IS NULL OR state NOT IN ('accepted', 'submitting', 'cancelled')) NOT VALID;
ALTER TABLE operations ADD CONSTRAINT operations_fencing_until_check
  CHECK ((fencing_until IS NULL) = (fence_started_at IS NULL)) NOT VALID;

CREATE FUNCTION operations_fence() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF OLD.fence_started_at IS NOT NULL AND NEW.fence_started_at IS DISTINCT FROM OLD.fence_started_at THEN
    RAISE EXCEPTION 'operation % keeps the beginning of its fence', OLD.id USING ERRCODE = 'restrict_violation';
  END IF;
  IF OLD.state <> 'indeterminate' OR NEW.state <> OLD.state OR OLD.acknowledged OR NEW.reference IS NOT NULL
    OR NEW.hinted_at IS DISTINCT FROM OLD.hinted_at
  THEN
    RAISE EXCEPTION 'a fence of operation % is sent only while it is indeterminate, without a reference', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  IF (OLD.send_before < clock_timestamp()) IS NOT TRUE THEN
    RAISE EXCEPTION 'a fence of operation % is sent only after its send_before', OLD.id USING ERRCODE = 'restrict_violation';
  END IF;
  IF (NEW.fencing_until >= greatest(OLD.fencing_until, OLD.due_at) AND OLD.due_at > now()) IS NOT TRUE THEN
    RAISE EXCEPTION 'a fence of operation % is sent only by its reader, and recorded until the end of the lease', OLD.id
      USING ERRCODE = 'restrict_violation';
  END IF;
  NEW.fence_started_at := coalesce(OLD.fence_started_at, date_trunc('milliseconds', clock_timestamp()));
  RETURN NEW;
END $$;

CREATE TRIGGER operations_fence BEFORE UPDATE ON operations FOR EACH ROW
  WHEN (NEW.fence_started_at IS DISTINCT FROM OLD.fence_started_at OR NEW.fencing_until IS DISTINCT FROM OLD.fencing_until)
  EXECUTE FUNCTION operations_fence();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_fence;
