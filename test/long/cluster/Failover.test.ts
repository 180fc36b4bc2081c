/**
 * A failover never lets a worker send an operation twice: claims that the standby missed are held. The test promotes a
 * real standby of PostgreSQL.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import type { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { accept } from "../../fixtures/ledger/Ledger.ts"
import { acceptSeveral, claimIds, claimTerms, issueAtNewProvider, pass, takeIds } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { newLedger, standbyOf, whileRunning } from "../../fixtures/postgres/OwnServer.ts"

const timeline = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly timeline: number }>`SELECT ledger_timeline() AS timeline`
  return row!.timeline
})

describe("A failover", () => {
  it.live("to a standby that missed a claim does not cause a second send", () =>
    Effect.gen(function*() {
      const primary = yield* newLedger
      const { grant, identity } = yield* whileRunning(primary, issueAtNewProvider())
      const { provider } = grant
      const ids = yield* whileRunning(primary, acceptSeveral(identity, 3))
      const standby = yield* standbyOf(primary)
      // The standby does not receive these changes, and the primary is lost after them.
      const claims = yield* whileRunning(
        primary,
        Effect.flatMap(Queue, (queue) => queue.claim(provider, 1, claimTerms))
      )
      assert.deepStrictEqual(claims.map(({ operation }) => operation.id), ids.slice(0, 1))

      yield* whileRunning(
        standby,
        Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const ledger = yield* OperationLedger
          const queue = yield* Queue
          const whileItFollows: ReadonlyArray<
            Effect.Effect<void, { readonly _tag: string }, OperationLedger | SubmissionQueue>
          > = [
            Effect.asVoid(queue.prepare),
            Effect.asVoid(claimIds(provider)),
            Effect.asVoid(queue.mayStillSend(claims[0]!)),
            Effect.asVoid(queue.rescue(1)),
            Effect.asVoid(takeIds("takeReads", provider)),
            Effect.asVoid(takeIds("takeHeld", provider)),
            Effect.asVoid(queue.release(ids[0]!)),
            Effect.asVoid(queue.releaseAll),
            Effect.asVoid(accept(identity))
          ]
          for (const [n, attempt] of whileItFollows.entries()) {
            assert.strictEqual((yield* Effect.flip(attempt))._tag, "StoreUnavailable", String(n))
          }

          yield* sql`SELECT pg_promote()`
          assert.isFalse(yield* queue.mayStillSend(claims[0]!), "this server does not have the claim")
          assert.strictEqual(yield* timeline, 2, "at once, before the control file changes")
          assert.deepStrictEqual(yield* queue.prepare, { moved: false })
          assert.deepStrictEqual(yield* claimIds(provider), [], "operations accepted before are held")
          const { operation: later } = yield* accept(identity)
          assert.deepStrictEqual(yield* claimIds(provider), [later.id], "operations accepted after are sent")
          assert.sameMembers([...yield* takeIds("takeHeld", provider)], ids)
          for (const id of ids) assert.deepInclude(yield* ledger.show(id), { state: "accepted", under_review: true })

          assert.strictEqual(
            (yield* Effect.flip(queue.release(ids[1]!)))._tag,
            "StillHeld",
            "the primary's worker may send"
          )
          yield* pass(claimTerms.rescue_after)
          yield* queue.release(ids[1]!)
          assert.deepStrictEqual(yield* claimIds(provider), [ids[1]!], "a released operation is sent")
          assert.strictEqual(yield* queue.releaseAll, 2)
          assert.sameMembers([...yield* claimIds(provider)], [ids[0]!, ids[2]!])
        })
      )
      // The timeline outlives restarts.
      assert.strictEqual(yield* whileRunning(standby, timeline), 2)
      assert.strictEqual(yield* whileRunning(primary, timeline), 1)
    }).pipe(Effect.scoped))
})
