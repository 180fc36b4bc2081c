/**
 * Status reads, examinations and rescues skip operations that another transaction has locked, so no two processes take one, and none
 * waits for another. The tests lock the row on a connection of their own.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { heldOperation, issueAtNewProvider, pass, queued, takeIds } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { inTime, openTransaction } from "../../../fixtures/postgres/Pools.ts"

const due = (state: "submitting" | "submitted") =>
  Effect.gen(function*() {
    const issued = yield* issueAtNewProvider()
    const { id } = yield* queued(issued, state)
    yield* pass("1 hour")
    return { id, provider: issued.grant.provider }
  })

const rescued = Effect.flatMap(Queue, (queue) => queue.rescue(1000))

const kinds = {
  "a status read": Effect.map(due("submitted"), ({ id, provider }) => ({ id, take: takeIds("takeReads", provider) })),
  "an examination of a held operation": Effect.map(heldOperation, ({ id, provider }) => ({
    id,
    take: takeIds("takeHeld", provider)
  })),
  "a rescue": Effect.map(due("submitting"), ({ id }) => ({ id, take: rescued }))
}

layer(PostgresLedger, { excludeTestServices: true })("while its operation is locked", (it) => {
  for (const [name, scene] of Object.entries(kinds)) {
    it.effect(`${name} is left to the holder of the lock, and waits for nothing`, () =>
      Effect.gen(function*() {
        const { id, take } = yield* scene
        const run = yield* openTransaction
        yield* run("SELECT 1 FROM operations WHERE id = $1 FOR UPDATE", [id])
        assert.notInclude(yield* inTime(take), id)
        yield* run("COMMIT")
        assert.include(yield* take, id)
      }).pipe(Effect.scoped))
  }
})
