-- The indexes of lists by state and by type, now in the order of time. Lists read them backwards. A new entry stands at the end of the entries
-- of its state, so that fewer pages split: docs/performance.md has the figures.
--
-- The build stops the traffic, for about a second with so many operations. A larger ledger keeps its indexes, which serve the same lists:
-- docs/deployment.md has the statements that replace them without a stop.
DO $order$
BEGIN
  IF EXISTS (SELECT FROM operations OFFSET 100000) THEN
    RETURN;
  END IF;
  DROP INDEX operations_by_state, operations_by_type;
  CREATE INDEX operations_by_state ON operations (client_id, resource_owner, subject, state, created_at, id);
  CREATE INDEX operations_by_type ON operations (client_id, resource_owner, subject, type, state, created_at, id);
END $order$;
