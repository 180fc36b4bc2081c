/**
 * A stream of acceptances does not delay a revocation, deactivation or disconnection. The test keeps the rows locked by
 * overlapping sessions, as acceptances do.
 */
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { Grant } from "../../../../src/domain/Grant.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { issue, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { anotherPool } from "../../../fixtures/postgres/Pools.ts"

const sessions = 6

/** Runs an effect while at least one session always holds a shared lock on the row. */
const whileShared = <A, E, R>(table: string, id: string, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const pool = yield* Layer.build(Layer.fresh(anotherPool({ maxConnections: sessions, multiplex: false })))
    const started = yield* Deferred.make<void>()
    let locked = 0
    const share = SqlClient.SqlClient.use((sql) =>
      sql.withTransaction(Effect.gen(function*() {
        yield* sql.unsafe(`SELECT 1 FROM ${table} WHERE id = $1 FOR SHARE`, [id])
        if (++locked === sessions) yield* Deferred.succeed(started, void 0)
        yield* sql`SELECT pg_sleep(0.05 + random() / 10)`
      }))
    )
    yield* Effect.forEach(
      Array.from({ length: sessions }),
      () => Effect.forkChild(Effect.forever(Effect.retry(share, Schedule.forever)))
    ).pipe(Effect.provideContext(pool))
    yield* Deferred.await(started)
    return yield* effect
  }).pipe(Effect.scoped)

layer(PostgresLedger, { excludeTestServices: true })("A stream of acceptances", (it) => {
  const changes: Readonly<
    Record<
      string,
      (
        grant: Grant
      ) => { readonly table: string; readonly id: string; readonly change: Effect.Effect<unknown, unknown, Grants> }
    >
  > = {
    "the revocation of a grant": ({ grant_id }) => ({
      table: "grants",
      id: grant_id,
      change: Grants.use((grants) => grants.revoke(grant_id))
    }),
    "the revocation of all grants of a client": ({ client_id, grant_id }) => ({
      table: "grants",
      id: grant_id,
      change: Grants.use((grants) => grants.revokeClient({ client_id }))
    }),
    "the deactivation of a client": ({ client_id }) => ({
      table: "clients",
      id: client_id,
      change: Grants.use((grants) => grants.setClientActive(client_id, false))
    }),
    "the disconnection of a provider": ({ provider_connection_id }) => ({
      table: "provider_connections",
      id: provider_connection_id,
      change: Grants.use((grants) => grants.setProviderConnected(provider_connection_id, false))
    })
  }

  for (const [name, change] of Object.entries(changes)) {
    it.effect(`does not delay ${name}`, () =>
      Effect.gen(function*() {
        const { grant } = yield* issue()
        const { change: run, id, table } = change(grant)
        yield* whileShared(table, id, run)
        const { client_active, provider_connected, revoked_at } = yield* Grants.use((grants) =>
          grants.show(grant.grant_id)
        )
        assert.isTrue(revoked_at !== null || !client_active || !provider_connected)
      }))
  }
})
