/**
 * Finding work costs the rows that are found, however much waits beside them. The tests count the rows in PostgreSQL's
 * execution plans.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Grant, ProviderName } from "../../../src/domain/Grant.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { fillQueue } from "../../fixtures/ledger/FilledQueue.ts"
import { issueAgain, newProvider, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { claimTerms, issueAtNewProvider, readTerms } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { boundedScans, planModes, recorded } from "../../fixtures/postgres/Plans.ts"
import { once } from "../../fixtures/postgres/RawSql.ts"
import { Statements } from "../../fixtures/postgres/Statements.ts"

const limit = 10

interface Filled {
  /** Operations of a client with a long queue. */
  readonly grant: Grant
  /** Operations of each of many clients with long queues. */
  readonly crowded: ProviderName
}

/** The statements that workers repeat, with the index that answers each. */
const questions: Readonly<
  Record<
    string,
    { readonly index: string; readonly ask: (filled: Filled) => Effect.Effect<unknown, unknown, SubmissionQueue> }
  >
> = {
  "a claim": {
    index: "operations_to_claim",
    ask: ({ grant }) => Effect.flatMap(Queue, (queue) => queue.claim(grant.provider, limit, claimTerms))
  },
  "a claim when more clients wait than its limit": {
    index: "operations_to_claim",
    ask: ({ crowded }) => Effect.flatMap(Queue, (queue) => queue.claim(crowded, limit, claimTerms))
  },
  "a search for returned claims": {
    index: "operations_to_take_over",
    ask: ({ grant }) => Effect.flatMap(Queue, (queue) => queue.claimReturned(grant.provider, limit, claimTerms))
  },
  "a search for stale claims": {
    index: "operations_to_rescue",
    ask: () => Effect.flatMap(Queue, (queue) => queue.rescue(limit))
  },
  "a search for status reads that are due": {
    index: "operations_to_read",
    ask: ({ grant }) => Effect.flatMap(Queue, (queue) => queue.takeReads(grant.provider, limit, readTerms))
  }
}

layer(PostgresLedger, { excludeTestServices: true })("the cost of finding work", (it) => {
  /** A provider with many operations that are due, beside many that are not. */
  const filled = once(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { grant } = yield* issueAtNewProvider()
    const { grant: other } = yield* issueAgain(grant, { provider: newProvider() })
    yield* fillQueue(grant, { count: 20_000, state: "succeeded" })
    yield* fillQueue(grant, { count: 5000, state: "cancelled" })
    yield* fillQueue(grant, { count: 4000, behind: 1 })
    yield* fillQueue(grant, { count: 3000, due_in: 3600 })
    for (const state of ["accepted", "submitted", "indeterminate"] as const) {
      yield* fillQueue(other, { count: 3000, state })
      yield* fillQueue(grant, { count: 500, state })
    }
    yield* fillQueue(grant, { count: 3000, state: "submitted", due_in: 3600 })
    yield* fillQueue(grant, { count: 3000, state: "submitting", due_in: 3600 })
    yield* fillQueue(grant, { count: 500, state: "submitting" })
    // Returned claims: of this provider and another one, due and not due, and of an earlier timeline.
    const returned = { state: "submitting", returned: true } as const
    yield* fillQueue(other, { ...returned, count: 3000 })
    yield* fillQueue(grant, { ...returned, count: 500 })
    yield* fillQueue(grant, { ...returned, count: 3000, due_in: 3600 })
    yield* fillQueue(grant, { ...returned, count: 500, behind: 1 })
    const crowded = newProvider()
    for (let client = 0; client < 3 * limit; client++) {
      const { grant: busy } = yield* issueAtNewProvider({ provider: crowded })
      yield* fillQueue(busy, { count: 100 })
      yield* fillQueue(busy, { count: 100, due_in: 3600, waiting: true })
      // Beside each, a provider whose operations all wait.
      const { grant: idle } = yield* issueAtNewProvider({ provider: crowded })
      yield* fillQueue(idle, { count: 20, due_in: 3600, waiting: true })
    }
    yield* sql`VACUUM ANALYZE operations`.unprepared
    return { grant, crowded }
  }))

  for (const [name, { ask, index }] of Object.entries(questions)) {
    for (const mode of planModes) {
      it.effect(`is proportional to the rows found: ${name} (${mode})`, () =>
        Effect.gen(function*() {
          const ledger = yield* filled
          const statements = yield* Statements
          const before = statements.length
          yield* ask(ledger)
          const [statement, ...others] = statements.slice(before)
          assert.isEmpty(others, "one statement finds enough rows")
          yield* boundedScans(statement!, mode, { index, rows: limit }, name)
        }).pipe(Effect.provide(recorded(SubmissionQueue.layer))))
    }
  }
})
