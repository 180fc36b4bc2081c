-- Operations that failed because their provider could not be reached, or took no request, by the time of the failure: operators are told of
-- those of the last day. Partial: an outage alone adds to it.
CREATE INDEX operations_unsent ON operations (updated_at, id)
  WHERE failure_code IN ('provider_unreachable', 'provider_unavailable');
