/**
 * The submission queue in PostgreSQL, put together from its parts.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { ReviewTerms } from "../../domain/Submission.ts"
import { orUnavailable } from "../StoreUnavailable.ts"
import { millis } from "./queueFragments.ts"
import { makeClaims } from "./SqlClaims.ts"
import { makeHolds } from "./SqlHolds.ts"
import { makeOutcomes } from "./SqlOutcomes.ts"
import { makeStatusReads } from "./SqlStatusReads.ts"

export const makeSql = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const reviewAged = Effect.fn("SubmissionQueue.reviewAged")((limit: number, terms: ReviewTerms) =>
    Effect.map(
      orUnavailable(
        sql.unsafe(reviewAgedStatement(limit), [
          Duration.toMillis(terms.accepted),
          Duration.toMillis(terms.submitted),
          Duration.toMillis(terms.indeterminate)
        ])
      ),
      (rows) => rows.length
    )
  )

  return {
    ...yield* makeClaims,
    ...yield* makeOutcomes,
    ...yield* makeStatusReads,
    ...yield* makeHolds,
    reviewAged
  }
})

const reviewAgedStatement = (limit: number) => {
  const aged = (state: string, age: string) => `
    (SELECT id, client_id FROM operations
    WHERE state = '${state}' AND NOT under_review AND greatest(updated_at, reviewed_at) <= now() - ${millis(age)}
    LIMIT ${limit})`
  return `
  UPDATE operations o SET under_review = true
  FROM (${aged("accepted", "$1")} UNION ALL ${aged("submitted", "$2")} UNION ALL ${aged("indeterminate", "$3")}
    LIMIT ${limit}) old
  WHERE o.id = old.id AND o.client_id = old.client_id AND o.due_at IS NOT NULL
  RETURNING 1`
}
