-- How the clock of a worker process compares with the clock of the database.

-- By how many milliseconds the clock of the process was proven to be ahead; negative: behind. Null: it has not compared them.
ALTER TABLE worker_reports ADD COLUMN clock_skew_ms double precision;
