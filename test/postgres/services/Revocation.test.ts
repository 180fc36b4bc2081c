/**
 * A request and a concurrent revocation take effect one after the other. The tests hold one transaction of PostgreSQL
 * open while the other waits.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import type { Grant } from "../../../src/domain/Grant.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { accept, everything, issue, issueAgain, newKey, PostgresLedger, walk } from "../../fixtures/Ledger.ts"
import { anotherProcess, openTransaction, untilWaiting } from "../../fixtures/Pools.ts"

/** Waits until a connection of this name has tried to accept. */
const untilAttempted = Effect.fnUntraced(function*(applicationName: string) {
  const sql = yield* SqlClient.SqlClient
  let attempts = 0
  while (attempts === 0) {
    const [row] = yield* sql<{ readonly attempts: number }>`
      SELECT count(*)::int AS attempts FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = ${applicationName} AND query LIKE '%NOWAIT%'`
    attempts = row!.attempts
  }
})

layer(PostgresLedger, { excludeTestServices: true })("a request and a concurrent revocation", (it) => {
  const endings = {
    "a revocation": [
      "UPDATE grants SET revoked_at = now() WHERE id = $1",
      ({ grant_id }: Grant) => grant_id,
      "GrantRevoked"
    ],
    "a deactivation of its client": [
      "UPDATE clients SET active = false WHERE id = $1",
      ({ client_id }: Grant) => client_id,
      "ClientInactive"
    ],
    "a disconnection of its provider": [
      "UPDATE provider_connections SET connected = false WHERE id = $1",
      ({ provider_connection_id }: Grant) => provider_connection_id,
      "ProviderDisconnected"
    ]
  } as const

  for (const [name, [statement, idOf, refusal]] of Object.entries(endings)) {
    it.effect(`are ordered: a request waits for ${name} that started first, is refused, and records nothing`, () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const { grant, identity } = yield* issue()
        yield* Effect.gen(function*() {
          const accepting = yield* Effect.scoped(Effect.gen(function*() {
            const run = yield* openTransaction
            yield* run(statement, [idOf(grant)])
            const fiber = yield* Effect.forkDetach(Effect.result(accept(identity)))
            yield* untilAttempted("accepting")
            yield* run("COMMIT")
            return fiber
          }))
          const result = yield* Fiber.join(accepting)
          // On a very busy machine the request may time out before the change is committed.
          const { _tag } = result._tag === "Failure" ? result.failure : result
          assert.include([refusal, "StoreUnavailable"], _tag)
          assert.strictEqual((yield* Effect.flip(accept(identity)))._tag, refusal)
        }).pipe(Effect.provide(anotherProcess({ applicationName: "accepting" })))
        assert.isEmpty(yield* sql`SELECT 1 FROM operations WHERE client_id = ${grant.client_id}`)
      }))
  }

  it.effect("are ordered: a revocation waits for a request that started first, whose operation is recorded", () =>
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
