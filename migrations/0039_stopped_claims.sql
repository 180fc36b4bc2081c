-- While a planned switchover is under way, no worker claims. The time ends the stop if the command dies. A standby that has the holds of the
-- switchover has the stop, too, because it was committed before them.
ALTER TABLE ledger_home ADD COLUMN claims_stopped_until timestamptz;
