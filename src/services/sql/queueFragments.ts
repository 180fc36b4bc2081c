/**
 * Fragments that statements of the submission queue and of the ledger share. In all of them `o` is a row of `operations`.
 */

/** An interval from a parameter in milliseconds. */
export const millis = (parameter: string) => `${parameter}::float8 * interval '1 millisecond'`

/**
 * The timeline on which an accepted operation can be claimed, or 0 while a hold is placed: no timeline is 0. It is a column of
 * the index `operations_to_claim`, and must stand here as it stands there.
 */
export const claimableTimeline = "(CASE WHEN o.hold_placed THEN 0 ELSE o.timeline END)"

/**
 * An accepted operation is not held. An examined operation is always held: if the ledger moves to another cluster, a timeline of
 * the same number may begin there.
 */
export const isFree = `${claimableTimeline} = ledger_timeline() AND o.examined_timeline IS NULL`

/** The reconciler examined the held operation on the present timeline, so that `send_before` counts. */
export const isExamined = "o.examined_timeline = ledger_timeline()"

/** Places a hold. The examination before it does not count any more. */
export const placeHold = "hold_placed = true, examined_timeline = NULL"

/**
 * Client, provider connection and a live grant of the same owner, subject and client still allow the operation. It need not be
 * the accepting grant. To be sent, the operation needs a grant with all scopes of the accepting grant at the acceptance.
 */
export const standing = (purpose: "send" | "read") => `
    EXISTS (SELECT 1 FROM clients c WHERE c.id = o.client_id AND c.active)
    AND EXISTS (SELECT 1 FROM provider_connections p WHERE p.id = o.provider_connection_id AND p.connected)
    AND EXISTS (
      SELECT 1 FROM grants g
      WHERE g.client_id = o.client_id AND g.resource_owner = o.resource_owner AND g.subject = o.subject
        AND g.provider_connection_id = o.provider_connection_id AND g.revoked_at IS NULL AND g.expires_at > now()${
  purpose === "read" ? "" : " AND g.scopes @> o.scopes"
}
    )`

/**
 * Delay before the next try of an operation that is not ready: a tenth of its time in its state. It is no less than the
 * parameter, and no more than five minutes unless the parameter is longer.
 */
export const idle = (parameter: string) =>
  `greatest(${millis(parameter)}, least(interval '5 minutes', (now() - o.updated_at) / 10))`

/** Puts an operation under review once it has been in its state for this time, counted from the end of the last review. */
export const reviewAfter = (age: string) =>
  `under_review = o.under_review OR greatest(o.updated_at, o.reviewed_at) <= now() - ${age}`

/** The columns of `SubmissionRow`. */
export const submissionColumns = "o.id, o.type, o.resource_owner, o.provider_connection_id, o.send_before, o.revision"
