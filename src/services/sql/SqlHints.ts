/**
 * Hints in PostgreSQL: they move the next status read of an operation forward, and change nothing else.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { ProviderName } from "../../domain/Grant.ts"
import type { HintedOperation, HintEffect } from "../../domain/Submission.ts"
import { mostHinted } from "../rules/mostHinted.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { claimableTimeline, millis, present } from "./queueFragments.ts"

export const makeHints = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const hint = Effect.fn("SubmissionQueue.hint")(
    function*(provider: ProviderName, about: HintedOperation, interval: Duration.Duration) {
      const [statement, name] = "reference" in about
        ? [hintByReference, about.reference]
        : [hintById, about.operation_id]
      const rows = yield* orUnavailable(
        sql.unsafe<{ readonly is_due: boolean }>(statement, [provider, name, Duration.toMillis(interval)])
      )
      if (rows.length === 0) return "ignored" satisfies HintEffect
      return (rows.some(({ is_due }) => is_due) ? "due" : "noted") satisfies HintEffect
    }
  )

  return { hint }
})

/**
 * When the read is due that a hint asks for: now, or an interval after the last such read. If the clock was set back, that one
 * may be far ahead. Then it does not count.
 */
const asked = `CASE WHEN o.hinted_at IS NULL THEN ${present}
    ELSE greatest(${present}, least(o.hinted_at, ${present} + ${millis("$3")}) + ${millis("$3")}) END`

/**
 * When the submission or the status read under way began. The hint may be older than its answer, so the next read follows it.
 * Null: none is under way. The lease of a read lasts until `due_at`.
 */
const underWay = "CASE WHEN o.state = 'submitting' THEN o.updated_at WHEN o.due_at > now() THEN o.reading_since END"

/** The conditions are on the updated row, so PostgreSQL checks them again after it waited for a lock. */
const hintStatement = (found: string) => `
  UPDATE operations o
  SET hinted_at = greatest(${asked}, ${underWay} + interval '1 millisecond'),
    due_at = CASE WHEN ${underWay} IS NULL THEN ${asked} ELSE o.due_at END
  FROM (${found}) f
  WHERE o.id = f.id AND o.client_id = f.client_id AND o.provider = $1
    AND (o.state IN ('submitting', 'submitted', 'indeterminate')
      OR o.state = 'accepted' AND ${claimableTimeline} < (SELECT ledger_timeline()))
    AND CASE WHEN ${underWay} IS NULL THEN o.due_at > ${asked} ELSE (o.hinted_at > ${underWay}) IS NOT TRUE END
  RETURNING o.state <> 'submitting' AND o.due_at <= now() AS is_due`

const hintById = hintStatement("SELECT id, client_id FROM operations WHERE id = $2")

/** Limited before the other conditions: references may repeat, and all settled operations keep theirs. */
const hintByReference = hintStatement(
  `SELECT id, client_id FROM operations WHERE reference = $2 ORDER BY updated_at DESC, id DESC LIMIT ${mostHinted}`
)
