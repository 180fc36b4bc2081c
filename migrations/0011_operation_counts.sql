-- What operators ask of the whole ledger: the oldest operations of each condition, how many operations there are, and which
-- worker processes run. Nothing of it costs more when the ledger grows.

-- The unsettled operations of a provider in each state, the longest in it first. Partial: the index does not grow with the ledger.
--
-- The third column is the timeline on which an accepted operation can be claimed: see operations_to_claim. It is 0 in the other
-- states. So the operations of a state are one range of the index, and the held ones others.
CREATE INDEX operations_unsettled
  ON operations (
    state,
    provider,
    (CASE WHEN state <> 'accepted' OR hold_placed THEN 0 ELSE timeline END),
    updated_at,
    id
  )
  WHERE completed_at IS NULL;
CREATE INDEX operations_under_review ON operations (provider, updated_at, id) WHERE under_review;

-- How operations moved from place to place, as counts. The place of an operation is its state, the timeline of the index above,
-- and whether it is under review. The operations of a place are all that moved there, less all that moved away.
--
-- Each statement adds a row for each kind of move, so that no writer waits for another, and the counts are those of the reader's
-- snapshot.
-- fold_operation_counts() merges the rows. There is no index: it would cost the writers, and every reader reads all rows.
CREATE TABLE operation_counts (
  -- The minute of the moves; of folded rows, later the hour. '-infinity': all earlier ones.
  at timestamptz NOT NULL,
  count bigint NOT NULL,
  -- Null: accepted.
  from_timeline integer,
  to_timeline integer NOT NULL,
  from_review boolean,
  to_review boolean NOT NULL,
  provider text NOT NULL,
  from_state text,
  to_state text NOT NULL
) WITH (
  -- A fold leaves as many dead rows as it merged, and every reader passes them.
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_cost_delay = 0
);

-- When the last fold was. Its lock is that of the fold: see fold_operation_counts().
CREATE TABLE operation_count_folds (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  folded_at timestamptz NOT NULL
);
INSERT INTO operation_count_folds (folded_at) VALUES ('-infinity');

-- After an INSERT or an UPDATE, once for all rows of the statement: equal moves become one row. It runs with the rights of the owner
-- of the schema: a role that writes operations needs no right to write counts.
--
-- PostgreSQL keeps the plan of the first call. A plan for one row would compare each old row with each new one.
CREATE FUNCTION operations_counted() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET enable_nestloop = off AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO operation_counts (at, count, to_timeline, to_review, provider, to_state)
    SELECT date_trunc('minute', updated_at, 'UTC') AS minute, count(*),
      CASE WHEN state <> 'accepted' OR hold_placed THEN 0 ELSE timeline END AS to_timeline, under_review, provider, state
    FROM added
    GROUP BY minute, to_timeline, under_review, provider, state;
  ELSE
    INSERT INTO operation_counts
      (at, count, from_timeline, to_timeline, from_review, to_review, provider, from_state, to_state)
    SELECT
      date_trunc('minute', CASE WHEN n.state <> o.state THEN n.updated_at ELSE clock_timestamp() END, 'UTC') AS minute,
      count(*),
      CASE WHEN o.state <> 'accepted' OR o.hold_placed THEN 0 ELSE o.timeline END AS from_timeline,
      CASE WHEN n.state <> 'accepted' OR n.hold_placed THEN 0 ELSE n.timeline END AS to_timeline,
      o.under_review,
      n.under_review,
      n.provider,
      o.state,
      n.state
    FROM former o JOIN changed n ON n.id = o.id AND n.client_id = o.client_id
    WHERE o.state <> n.state OR o.under_review <> n.under_review OR o.hold_placed <> n.hold_placed OR o.timeline <> n.timeline
    GROUP BY minute, from_timeline, to_timeline, o.under_review, n.under_review, n.provider, o.state, n.state;
  END IF;
  RETURN NULL;
END $$;

-- Merges the rows of equal moves in the same minute. After three hours the minutes of an hour become one row, after seven days
-- all hours do. Returns false without a wait if another fold runs, or if the last one was less than `p_pause` ago. Any number of
-- sessions may call it. It waits for no writer, and no writer waits for it.
--
-- The limit bounds the time of a fold. It is more than the moves of 60 busy providers that cannot be merged.
CREATE FUNCTION fold_operation_counts(p_pause interval DEFAULT '4 seconds') RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  hours_before timestamptz := date_trunc('hour', now() - interval '3 hours', 'UTC');
  all_before timestamptz := date_trunc('hour', now() - interval '7 days', 'UTC');
BEGIN
  -- A time to come: the clock was set back.
  PERFORM FROM operation_count_folds
  WHERE folded_at NOT BETWEEN clock_timestamp() - p_pause AND clock_timestamp()
  FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE operation_count_folds SET folded_at = clock_timestamp();
  WITH aged AS (
    SELECT c.*, c.ctid AS place, CASE
      WHEN at < all_before THEN '-infinity'
      WHEN at < hours_before THEN date_trunc('hour', at, 'UTC')
      ELSE at
    END AS folded_at
    FROM operation_counts c LIMIT 200000
  ), merged AS (
    SELECT place, folded_at <> at OR count(*) OVER (
      PARTITION BY folded_at, provider, from_state, to_state, from_timeline, to_timeline, from_review, to_review
    ) > 1 AS changes
    FROM aged
  ), taken AS (
    DELETE FROM operation_counts c USING merged m WHERE c.ctid = m.place AND m.changes RETURNING c.*
  )
  INSERT INTO operation_counts
    (at, count, from_timeline, to_timeline, from_review, to_review, provider, from_state, to_state)
  SELECT CASE
      WHEN at < all_before THEN '-infinity'
      WHEN at < hours_before THEN date_trunc('hour', at, 'UTC')
      ELSE at
    END AS folded_at, sum(count), from_timeline, to_timeline, from_review, to_review, provider, from_state, to_state
  FROM taken
  GROUP BY folded_at, from_timeline, to_timeline, from_review, to_review, provider, from_state, to_state;
  RETURN true;
END $$;

-- Counts all operations anew, and forgets their moves. Only the owner may call it: for a ledger whose operations were changed
-- while their triggers were disabled. The lock waits for folds and for moves under way; later ones wait until it has finished.
CREATE FUNCTION recount_operations() RETURNS void
  LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE operation_counts IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM operation_counts;
  INSERT INTO operation_counts (at, count, to_timeline, to_review, provider, to_state)
  SELECT '-infinity', count(*), CASE WHEN state <> 'accepted' OR hold_placed THEN 0 ELSE timeline END AS to_timeline,
    under_review, provider, state
  FROM operations GROUP BY to_timeline, under_review, provider, state;
END $$;

-- The functions find the tables in the present schema, not by the search path of the caller.
DO $path$
DECLARE
  f regprocedure;
BEGIN
  FOREACH f IN ARRAY
    ARRAY['operations_counted()', 'fold_operation_counts(interval)', 'recount_operations()']::regprocedure[]
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', f, current_schema());
  END LOOP;
END $path$;
REVOKE ALL ON FUNCTION operations_counted(), fold_operation_counts(interval), recount_operations() FROM PUBLIC;

CREATE TRIGGER operations_counted AFTER INSERT ON operations REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION operations_counted();
CREATE TRIGGER operations_recounted AFTER UPDATE ON operations REFERENCING OLD TABLE AS former NEW TABLE AS changed
  FOR EACH STATEMENT EXECUTE FUNCTION operations_counted();
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_counted;
ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_recounted;
-- The locks of CREATE TRIGGER keep writers out, so the count is that of all operations before the first move.
SELECT recount_operations();

-- The processes with workers, as they last reported themselves. For operators: no worker reads it.
CREATE TABLE worker_reports (
  -- Chosen by the process when it starts.
  process_id uuid PRIMARY KEY,
  worker_id text CHECK (length(worker_id) BETWEEN 1 AND 255),
  version text NOT NULL CHECK (length(version) BETWEEN 1 AND 64),
  started_at timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz(3) NOT NULL DEFAULT clock_timestamp(),
  -- The circuit of each provider of the process: closed, half_open or open.
  circuits jsonb NOT NULL CHECK (jsonb_typeof(circuits) = 'object')
);
