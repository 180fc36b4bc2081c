-- The order of the change feed.
--
-- Each change of the public form gets the id of its transaction, plus an offset, as its change position. Transactions commit in
-- any order, so a reader notes which older ones were not finished, and reads those later. The rules are in
-- `services/internal/changePosition.ts`. No writer waits for another, and an unfinished transaction delays only itself.

-- How far the changes had come on each timeline, as a worker last recorded it: the highest position that it saw, and the lower
-- ones that were unfinished then. A mark that is there after a failover proves that everything it saw is there, because all of it
-- was committed before the mark. Change tokens that saw no more stay valid.
CREATE TABLE change_marks (
  timeline integer PRIMARY KEY,
  -- Tells timelines of the same number apart, which two failovers from one backup can begin.
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  high bigint NOT NULL,
  pending bigint[] NOT NULL,
  marked_at timestamptz(3) NOT NULL DEFAULT now()
);
INSERT INTO change_marks (timeline, high, pending, marked_at) VALUES (ledger_timeline(), 0, '{}', 'epoch');

-- Names the history of the ledger on a timeline. A change token belongs to one history: in another one, changes that the token
-- counts as seen may never have happened. A history ends with the timeline, with the home, with a restored table and with
-- `hold --all`. Null until a worker has recorded the present home, and the first mark of the timeline: before that, new positions
-- may be lower than those of restored rows.
CREATE FUNCTION ledger_history(p_timeline integer) RETURNS text
  LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_history text;
BEGIN
  SELECT concat_ws('.', h.history, h.system_identifier, h.database, 'operations'::regclass::oid, m.timeline, m.id)
  INTO v_history
  FROM change_marks m, ledger_home h, pg_control_system() s, pg_database d
  WHERE m.timeline = p_timeline AND d.datname = current_database() AND h.system_identifier = s.system_identifier
    AND h.database = d.oid;
  RETURN encode(substring(sha256(convert_to(v_history, 'UTF8')) FOR 9), 'base64');
END $$;

-- Before the home of the ledger changes. The new cluster counts transactions from another number, so the offset puts new
-- changes behind the restored ones, also those of transactions that are running now. The lock waits for transactions that use
-- the old offset.
CREATE FUNCTION ledger_home_moved() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF (NEW.system_identifier, NEW.database) IS DISTINCT FROM (OLD.system_identifier, OLD.database) THEN
    LOCK TABLE operations IN SHARE ROW EXCLUSIVE MODE;
    NEW.history := gen_random_uuid();
    NEW.change_offset := greatest(
      OLD.change_offset,
      coalesce((SELECT max(change_position + 0) FROM operations), 0) + 1
        - pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    );
  ELSIF NEW.change_offset <> OLD.change_offset THEN
    RAISE EXCEPTION 'the change offset changes only with the home of the ledger' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN NEW;
END $$;

-- The functions find the tables in the present schema, not by the search path of the caller.
DO $path$
DECLARE
  f regproc;
BEGIN
  FOREACH f IN ARRAY ARRAY['ledger_history', 'ledger_home_moved']::regproc[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f::regprocedure, current_schema());
  END LOOP;
END $path$;
REVOKE ALL ON FUNCTION ledger_home_moved() FROM PUBLIC;

CREATE TRIGGER ledger_home_moved BEFORE UPDATE ON ledger_home FOR EACH ROW EXECUTE FUNCTION ledger_home_moved();
ALTER TABLE ledger_home ENABLE ALWAYS TRIGGER ledger_home_moved;

-- Otherwise a new row could start with another offset, and put new changes in front of those that readers have seen.
CREATE TRIGGER ledger_home_permanent BEFORE DELETE OR TRUNCATE ON ledger_home
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_statement('the ledger keeps its place in the change feed');
ALTER TABLE ledger_home ENABLE ALWAYS TRIGGER ledger_home_permanent;
