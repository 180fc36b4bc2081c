/** Fragments that statements of the submission queue and of the ledger share. In all of them `o` is a row of `operations`. */

import { lostTakeOver } from "../rules/ledgerRules.ts"

/** An interval from a parameter in milliseconds. */
export const millis = (parameter: string) => `${parameter}::float8 * interval '1 millisecond'`

/**
 * The timeline on which an accepted operation can be claimed, or 0 while a hold is placed: no timeline is 0. It is a column of
 * the index `operations_to_claim`, and must stand here as it stands there.
 */
export const claimableTimeline = "(CASE WHEN o.hold_placed THEN 0 ELSE o.timeline END)"

/**
 * The timeline of an operation in the indexes of unsettled ones: its claimable timeline, or 0 in other states than `accepted`. It must stand
 * here as it stands there.
 */
export const indexedTimeline = "(CASE WHEN o.state <> 'accepted' OR o.hold_placed THEN 0 ELSE o.timeline END)"

/** The client queue of an operation in the index `operations_to_claim`: its client, or '' while it waits. */
export const clientQueue = `(CASE WHEN o.waiting THEN '' ELSE o.client_id END COLLATE "C")`

/** Milliseconds since the epoch. */
export const epochOf = (time: string) => `(extract(epoch FROM ${time}) * 1000)::float8`

/** What a person asks the provider, if a status read in the present state of the row `o` left a question. */
export const openQuestion = `CASE WHEN (o.last_read ->> 'at')::float8 >= ${
  epochOf("o.updated_at")
} THEN o.last_read ->> 'question' END`

/** The instant of a parameter in milliseconds since the epoch. */
export const instantAt = (parameter: string) => `to_timestamp(${parameter}::float8 / 1000)::timestamptz(3)`

/**
 * An accepted operation is not held. An examined operation is always held: if the ledger moves to another cluster, a timeline of
 * the same number may begin there.
 */
export const isFree = `${claimableTimeline} = ledger_timeline() AND o.examined_timeline IS NULL`

/** The reconciler examined the held operation on the present timeline, so that `send_before` counts. */
export const isExamined = "o.examined_timeline = ledger_timeline()"

/** Held until a person decides: `migrations/0035_approvals.sql`. A release gives it a proof. */
export const awaitsApproval = "(o.state = 'accepted' AND coalesce(o.approval = 'pending', false))"

/** Only its decision ends the hold. What a failover or a move may have lost is released first, and then waits for its decision. */
export const needsDecision = `(${awaitsApproval} AND is_unsent(o))`

/** An operator or a late report holds it: `migrations/0048_operator_holds.sql`. No approval and no proof ends that, only the release of this operation. */
export const heldByOperator = "(o.state = 'accepted' AND o.hold_placed AND o.hold_outlasts_approval)"

/** An operator may hold it, also if something else holds it. */
export const mayHold = `(o.state = 'accepted' AND NOT ${heldByOperator})`

/** Places a hold. The examination before it does not count any more. */
export const placeHold = "hold_placed = true, examined_timeline = NULL"

/**
 * The operation is accepted, or its claim was returned. It was provably never sent, and no worker can send it without a later claim:
 * `migrations/0020_unsent_operations.sql`. PostgreSQL asks again after it waited for the lock of the row.
 */
export const isUnsent = "is_unsent(o)"

/**
 * The grant `g` has no limits, or exactly those of the grant by which the operation was accepted: only the acceptance checks limits. The
 * accepting grant may have got its limits since.
 */
const hasNoOtherLimits = `(g.authorization_details IS NULL
        OR coalesce(o.limited_by_grant, o.limit_amount IS NOT NULL) AND g.authorization_details = (
          SELECT a.authorization_details FROM grants a WHERE a.id = o.grant_id AND a.client_id = o.client_id
        ))`

/** A live grant of the same owner, subject, client and provider connection. To send, it has all scopes of the operation, and no other limits. */
export const hasLiveGrant = (purpose: "send" | "read") =>
  `EXISTS (
      SELECT 1 FROM grants g
      WHERE g.client_id = o.client_id AND g.resource_owner = o.resource_owner AND g.subject = o.subject
        AND g.provider_connection_id = o.provider_connection_id AND g.revoked_at IS NULL AND g.expires_at > now()${
    purpose === "read" ? "" : ` AND g.scopes @> o.scopes\n        AND ${hasNoOtherLimits}`
  }
    )`

/**
 * Client, provider connection and a live grant of the same owner, subject and client still allow the operation. It need not be
 * the accepting grant. To be sent, the operation needs a grant with all scopes of the accepting grant at the acceptance, and no other limits.
 */
export const standing = (purpose: "send" | "read") => `
    EXISTS (SELECT 1 FROM clients c WHERE c.id = o.client_id AND c.active)
    AND EXISTS (SELECT 1 FROM provider_connections p WHERE p.id = o.provider_connection_id AND p.connected)
    AND ${hasLiveGrant(purpose)}`

/**
 * Delay before the next try of an operation that is not ready: a tenth of its time in its state. It is no less than the
 * parameter, and no more than five minutes unless the parameter is longer.
 */
export const idle = (parameter: string) =>
  `greatest(${millis(parameter)}, least(interval '5 minutes', (now() - o.updated_at) / 10))`

/** Puts an operation under review once it has been in its state for this time, counted from the end of the last review. */
export const reviewAfter = (age: string) =>
  `under_review = o.under_review OR greatest(o.updated_at, o.reviewed_at) <= now() - ${age}`

/** The present in whole milliseconds: a column rounds, and work that is due at once must not be due half a millisecond later. */
export const present = "date_trunc('milliseconds', now())"

/** When the submission or the status read of an operation began. */
const begun = "CASE WHEN o.state = 'submitting' THEN o.updated_at ELSE o.reading_since END"

/**
 * The next status read after the outcome of a submission or of a read: `delay` from now, or earlier if a hint came meanwhile.
 * It stands in the UPDATE that ends the submission or the read, which began at `since`.
 */
export const nextRead = (delay: string, since = begun) => `
    least(now() + ${delay}, CASE WHEN o.hinted_at > ${since} THEN greatest(${present}, o.hinted_at) END)`

/** The columns of `SubmissionRow`. */
export const submissionColumns = "o.id, o.type, o.resource_owner, o.provider_connection_id, o.send_before, o.revision"

/** Cluster, database and table of the operations, as columns of `ledger_home` name them. */
export const presentHome = `
    SELECT s.system_identifier, d.oid, 'operations'::regclass::oid FROM pg_control_system() s, pg_database d
    WHERE d.datname = current_database()`

/**
 * Whether the row `h` of `ledger_home` names the present home. A copy of the ledger in another cluster or database has another one. So has a dump
 * that is restored into its own database: its table is new.
 */
export const isHome = `(h.system_identifier, h.database, h.operations_oid) = (${presentHome})`

/**
 * A CTE with the current timeline. It is empty where nothing may be claimed: on a database that could forget commits, in a cluster for
 * which no worker called `prepare`, and while a planned switchover is under way. A ledger with an epoch lets a worker claim only if its
 * `ClaimRecorder` records the batch. The life of the server must also be that in which the ledger was last verified.
 */
export const here = (isRecorded: boolean) =>
  `here AS MATERIALIZED (
    SELECT ledger_timeline() AS timeline${isRecorded ? ", h.epoch, h.epoch_life AS life" : ""} FROM ledger_home h
    WHERE ${isHome} AND current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'
      AND coalesce(h.claims_stopped_until <= now(), true)
      AND ${isRecorded ? "h.epoch_life = ledger_life()" : "h.epoch IS NULL"}
  )`

/**
 * A CTE that counts the batch of the worker, if the CTE `claimed` has an operation. A statement of the same worker that is still
 * running holds the lock of the row, so the numbers have the order of the commits.
 */
export const countBatch = (worker: string, provider: string, claimed: string) =>
  `, batched AS (
    INSERT INTO claim_batches AS b (worker, life, provider, batch)
    SELECT ${worker}::uuid, h.life, ${provider}, 1 FROM here h WHERE EXISTS (SELECT FROM ${claimed})
    ON CONFLICT (worker, life, provider) DO UPDATE SET batch = b.batch + 1, updated_at = now()
    RETURNING b.*
  )`

/** A `ClaimBatch`, for the rows of `claimed`. */
export const batchColumn = `, (SELECT json_build_object('epoch', h.epoch, 'worker', b.worker, 'life', b.life,
      'provider', b.provider, 'batch', b.batch) FROM here h, batched b) AS batch`

/**
 * The limit of a statement's text for a limit that is a parameter. PostgreSQL plans a parameter for a tenth of the queue, so the
 * text needs a number. But it plans each text anew on each connection, so there are few texts: powers of 8.
 */
export const plannedLimit = (limit: number) => 8 ** Math.ceil(Math.log2(limit) / 3)

/** CTEs that add the payloads of `picked`, which has `id`, `client_id`, `created_at` and `is_allowed`: `ready` in `due` is the rest. */
export const dueWithPayloads = (keyIds: string, plaintextBefore: string) => `
  payloads AS MATERIALIZED (
    SELECT * FROM payloads_of(ARRAY(SELECT id FROM picked))
  ), due AS MATERIALIZED (
    SELECT p.*, y.payload, y.key_id, p.is_allowed AND NOT ${lacksPayloadKey(keyIds, plaintextBefore)} AS ready
    FROM picked p LEFT JOIN payloads y ON y.operation_id = p.id AND y.client_id = p.client_id
  )`

/**
 * The payload `y` needs a key that is not in `keyIds`, or is plain text of an operation `p` that is not older than
 * `plaintextBefore`. A missing payload needs none.
 */
const lacksPayloadKey = (keyIds: string, plaintextBefore: string) =>
  `coalesce(y.operation_id IS NOT NULL
        AND CASE WHEN y.key_id IS NULL THEN p.created_at >= to_timestamp(${plaintextBefore}::float8 / 1000)
          ELSE y.key_id <> ALL (${keyIds}::text[]) END, false)`

/** A take-over that a rollback lost may send for so long. */
const lostTakeOverTime = `greatest(${lostTakeOver} * interval '1 millisecond', o.send_before - o.updated_at)`

/**
 * Moves a claim to `indeterminate`. After a rollback, `send_before` covers a take-over that the rollback may have lost; else
 * it becomes `otherwise`. An operation that was claimed by hand has no `send_before`, and gets none.
 */
export const toIndeterminate = (evidence: string, isRollback: string, otherwise = "o.send_before") => `
    state = 'indeterminate', revision = o.revision + 1, due_at = now(), evidence = ${evidence},
    send_before = CASE WHEN o.send_before IS NOT NULL AND ${isRollback}
      THEN greatest(o.send_before, now() + ${lostTakeOverTime}) ELSE ${otherwise} END`

/**
 * Ends every claim, after a rollback that kept the timeline or a move. A claim may have been returned, taken over and sent since then.
 * Its holder may still return it, and a worker that took it over would send it a second time. `indeterminate` is true also while
 * a holder sends. Run it after the statement that places the holds: it then sees the claims for which that one waited.
 */
export const endClaims = (evidence: string) =>
  `UPDATE operations o SET ${toIndeterminate(evidence, "true")} WHERE o.state = 'submitting' RETURNING 1`
