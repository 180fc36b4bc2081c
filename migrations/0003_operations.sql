-- Operations: one row for each, for ever. 0006_operation_rules.sql has the rules of its changes.

CREATE TABLE operations (
  id uuid NOT NULL CHECK (get_byte(uuid_send(id), 6) >> 4 = 7),
  client_id text NOT NULL,
  resource_owner text NOT NULL,
  subject text NOT NULL,
  grant_id uuid NOT NULL,
  provider_connection_id uuid NOT NULL,
  -- A copy of the provider of the connection, for the indexes of the workers.
  provider text NOT NULL,
  -- The scopes of the accepting grant at the acceptance. A grant must have all of them for the operation to be sent, and
  -- the accepting grant may lose some later.
  scopes text[] NOT NULL DEFAULT '{}',
  -- PostgreSQL checks them at each change. A pattern without a bound matches several times faster than one with a bound.
  type text NOT NULL CHECK (type ~ '^[a-z][a-z0-9_.]*$' AND length(type) <= 64),
  idempotency_key text NOT NULL CHECK (idempotency_key ~ '^[\x21-\x7e]+$' AND length(idempotency_key) <= 255),
  request_digest bytea NOT NULL CHECK (octet_length(request_digest) = 32),
  state text NOT NULL CHECK (
    state IN ('accepted', 'submitting', 'submitted', 'indeterminate', 'succeeded', 'failed', 'cancelled')
  ),
  revision integer NOT NULL CHECK (revision >= 1),
  under_review boolean NOT NULL DEFAULT false,
  -- Milliseconds, because the keyset of a list passes through JavaScript.
  created_at timestamptz(3) NOT NULL,
  updated_at timestamptz(3) NOT NULL,
  completed_at timestamptz(3),
  failure_code text CHECK (failure_code ~ '^[a-z][a-z0-9_]*$' AND length(failure_code) <= 64),
  failure_message text CHECK (length(failure_message) BETWEEN 1 AND 1024),
  -- A transition passes its evidence to the trigger in this column, and the trigger moves it to the history. The column
  -- stays null, so that old evidence cannot justify a later transition.
  evidence json CHECK (evidence IS NULL),

  -- The place of the last change of the public form in the change feed: see 0010_change_feed.sql. The triggers set it.
  change_position bigint NOT NULL,

  -- The columns from here on are no part of the public form. They change without a transition and without a revision.

  -- When the next component acts: the worker claims, the rescuer rescues, the reconciler reads. Null once it is settled.
  due_at timestamptz(3) CHECK (isfinite(due_at)),
  -- A worker found the operation due but not ready to be sent, and postponed it.
  waiting boolean NOT NULL DEFAULT false,
  -- The timeline of the database on which the operation was accepted or last released. An accepted operation of an
  -- earlier timeline is held: the change of the timeline may have lost a claim.
  timeline integer NOT NULL,
  -- An operator, a move of the ledger or a late report of a worker holds the operation, on any timeline.
  hold_placed boolean NOT NULL DEFAULT false,
  -- The timeline on which the reconciler examined the held operation, and set its send_before. Null: not examined since it
  -- was accepted, released or held again. An earlier timeline does not count: a failover may have restored the row.
  examined_timeline integer,
  -- No byte leaves after this instant. The claim sets it, and each take-over a later one; for a held operation the
  -- reconciler does. It identifies the claim: what a worker records of another claim is stale.
  send_before timestamptz(3) CHECK (isfinite(send_before)),
  -- The id of the worker that claimed the operation, or took it over. Null: the worker has no id, or nothing claimed it.
  claimed_by text CHECK (length(claimed_by) BETWEEN 1 AND 255),
  -- Why the worker returned its claim without sending a byte. Null: the claim is held. A returned claim has no holder, and
  -- the next worker may take it over.
  return_reason text CHECK (length(return_reason) BETWEEN 1 AND 1024),
  -- The provider's id of the operation.
  reference text CHECK (length(reference) BETWEEN 1 AND 1024),
  -- The provider once confirmed that it received the operation: by an acknowledgement, or by a reference.
  acknowledged boolean NOT NULL DEFAULT false,
  -- Status reads so far. The interval between them grows with the number.
  reads integer NOT NULL DEFAULT 0 CHECK (reads >= 0),
  -- When an operator last ended a review. The age for the next review counts from there.
  reviewed_at timestamptz(3),
  -- When the status read under way began. Null: none is under way. A transition ends it.
  reading_since timestamptz(3),
  -- When the read that the last hint asked for is due: see 0006. The next hint asks for one at least an interval later.
  hinted_at timestamptz(3) CHECK (isfinite(hinted_at)),

  -- client_id is part of the key for sharding. id comes first, so that the ledger finds an operation by its id alone.
  PRIMARY KEY (id, client_id),
  -- The request binding. It is never released. The key comes first, because no other index has it: so no plan can find a
  -- binding by reading all operations of its client.
  UNIQUE (idempotency_key, client_id, subject),
  -- Client, owner, subject and provider connection are those of the accepting grant.
  FOREIGN KEY (grant_id, client_id, resource_owner, subject, provider_connection_id)
    REFERENCES grants (id, client_id, resource_owner, subject, provider_connection_id),
  CHECK ((completed_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),
  CHECK ((failure_code IS NOT NULL) = (state = 'failed')),
  CHECK ((failure_message IS NOT NULL) = (state = 'failed')),
  CHECK ((due_at IS NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),
  -- A review ends with the operation.
  CHECK (NOT under_review OR state NOT IN ('succeeded', 'failed', 'cancelled')),
  -- Only accepted operations are held. Their examination sets send_before.
  CHECK (state = 'accepted' OR (NOT hold_placed AND examined_timeline IS NULL)),
  CHECK (examined_timeline IS NULL OR send_before IS NOT NULL),
  CHECK (claimed_by IS NULL OR state <> 'accepted'),
  -- Only claims with a deadline are returned: the next one must be later.
  CHECK (return_reason IS NULL OR (state = 'submitting' AND send_before IS NOT NULL))
);

-- One index for each way to list, in list order: the cost of a page does not grow with the operations of its owner.
CREATE INDEX operations_by_creation
  ON operations (client_id, resource_owner, subject, created_at DESC, id DESC);
CREATE INDEX operations_by_state
  ON operations (client_id, resource_owner, subject, state, created_at DESC, id DESC);
CREATE INDEX operations_by_type
  ON operations (client_id, resource_owner, subject, type, state, created_at DESC, id DESC);

-- The change feed, of one owner and of the whole ledger. The second index has an expression, so that only statements which name it
-- can use it. Otherwise, with stale statistics, PostgreSQL would read the changes of all owners for one.
CREATE INDEX operations_by_owner_change
  ON operations (client_id, resource_owner, subject, change_position, id);
CREATE INDEX operations_by_change ON operations ((change_position + 0), id);

-- One index for each kind of due work. They hold unsettled operations only, so their size does not grow with the ledger.
--
-- The second column of operations_to_claim is the timeline on which the operation can be claimed. It is 0 while a hold is
-- placed, because no timeline is 0. So the claimable operations are one range of the index, and the held ones another.
--
-- The third column is the lane. Each client has a lane, so that claims can take turns; all waiting operations share the
-- lane ''. A claim skips from lane to lane. If waiting operations stood in the lanes of their clients, a claim would have to
-- visit each client that has one.
CREATE INDEX operations_to_claim
  ON operations (
    provider,
    (CASE WHEN hold_placed THEN 0 ELSE timeline END),
    (CASE WHEN waiting THEN '' ELSE client_id END COLLATE "C"),
    due_at
  )
  WHERE state = 'accepted';
CREATE INDEX operations_to_rescue ON operations (due_at) WHERE state = 'submitting' AND return_reason IS NULL;
-- The timeline comes first: the rescuer finds the returned claims of an earlier timeline, and skips the others.
CREATE INDEX operations_to_take_over ON operations (timeline, provider, due_at)
  WHERE state = 'submitting' AND return_reason IS NOT NULL;
CREATE INDEX operations_to_read ON operations (provider, due_at) WHERE state IN ('submitted', 'indeterminate');
