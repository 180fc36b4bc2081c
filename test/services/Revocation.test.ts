import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { Grants } from "../../src/services/Grants.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { accept, everything, fieldsOf, issue, issueAgain, newKey, PostgresLedger, walk } from "../fixtures/Ledger.ts"
import { anotherProcess, openTransaction, untilWaiting } from "../fixtures/Pools.ts"

layer(PostgresLedger, { excludeTestServices: true })("a request and a revocation at once", (it) => {
  it.effect("the request waits for a revocation that came first, is refused, and nothing is recorded", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issue()
      yield* Effect.gen(function*() {
        const accepting = yield* Effect.scoped(Effect.gen(function*() {
          const run = yield* openTransaction
          yield* run("UPDATE grants SET revoked_at = now() WHERE id = $1", [grant.grant_id])
          const fiber = yield* Effect.forkDetach(Effect.result(accept(identity)))
          yield* untilWaiting(1)
          yield* run("COMMIT")
          return fiber
        }))
        const result = yield* Fiber.join(accepting)
        assert.deepStrictEqual(result._tag === "Failure" && fieldsOf(result.failure), {
          _tag: "GrantRevoked",
          reason: "revoked"
        })
      }).pipe(Effect.provide(anotherProcess()))
      assert.isEmpty((yield* walk((yield* issueAgain(grant)).identity, everything)).flat())
    }))

  it.effect("the revocation waits for a request that came first, so that the operation is recorded before it", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const here = yield* OperationLedger
      const request = { type: "payment", key: newKey(), payload: null }
      const { grant, identity } = yield* issue()
      yield* Effect.gen(function*() {
        const elsewhere = yield* Grants
        const [{ operation }, revoking] = yield* sql.withTransaction(Effect.gen(function*() {
          const accepted = yield* here.accept(identity, request)
          const fiber = yield* Effect.forkDetach(elsewhere.revoke(grant.grant_id))
          yield* untilWaiting(1)
          return [accepted, fiber] as const
        }))
        yield* Fiber.join(revoking)
        const { identity: renewed } = yield* issueAgain(grant)
        assert.deepStrictEqual((yield* walk(renewed, everything)).flat(), [operation])
      }).pipe(Effect.provide(anotherProcess()))
    }))
})
