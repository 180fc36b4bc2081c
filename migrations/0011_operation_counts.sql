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
