/**
 * A server in recovery answers no read and no probe, because it may show changes that a failover discards, or a revoked
 * grant. The test reads from a standby that follows no primary.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { accept, everything, identityOf, issue, issueAgain, newKey } from "../../fixtures/ledger/Ledger.ts"
import { newLedger, standbyOf, whileRunning } from "../../fixtures/postgres/OwnServer.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"

const verify = (token: Redacted.Redacted<string>) =>
  GrantVerifier.use((verifier) =>
    verifier.verify({ scheme: "Bearer", token, proof: null, certificate: null, method: "GET", url: "", resource: null })
  )

const readinessOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.provide(effect, Layer.provide(Readiness.layer, Platform))

describe("A server in recovery", () => {
  it.live("refuses reads, verification and probes until it is promoted, and never reports a grant or token as unknown", () =>
    Effect.gen(function*() {
      const primary = yield* newLedger
      const old = yield* whileRunning(primary, issue())
      const { operation } = yield* whileRunning(primary, accept(old.identity))
      const standby = yield* standbyOf(primary)
      // The standby has none of these changes.
      const later = yield* whileRunning(
        primary,
        Effect.gen(function*() {
          yield* Grants.use((grants) => grants.revoke(old.grant.grant_id))
          return yield* issueAgain(old.grant)
        })
      )

      yield* whileRunning(
        standby,
        Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const store = yield* OperationStore
          const reads = [old, later].flatMap(({ access_token, grant }) => [
            Effect.asVoid(store.find(identityOf(grant), operation.id)),
            Effect.asVoid(store.list(identityOf(grant), everything)),
            Effect.asVoid(store.list(identityOf(grant), { ...everything, states: ["accepted"] })),
            Effect.asVoid(store.list(identityOf(grant), { ...everything, created_before: operation.created_at })),
            Effect.asVoid(store.list(identityOf(grant), { ...everything, key: newKey() })),
            Effect.asVoid(store.refused([identityOf(grant)])),
            Effect.asVoid(verify(access_token))
          ])
          for (const [n, read] of reads.entries()) {
            assert.strictEqual(
              (yield* Effect.flip<void, { readonly _tag: string }, GrantVerifier>(read))._tag,
              "StoreUnavailable",
              String(n)
            )
          }
          const check = Readiness.use((readiness) => readiness.check)
          assert.strictEqual((yield* readinessOf(Effect.flip(check))).reason, "in_recovery")

          yield* sql`SELECT pg_promote()`
          yield* readinessOf(check)
          assert.strictEqual((yield* store.find(old.identity, operation.id)).id, operation.id)
          assert.deepStrictEqual(yield* verify(old.access_token), old.identity)
          assert.strictEqual((yield* Effect.flip(store.find(later.identity, operation.id)))._tag, "GrantUnknown")
        })
      )
    }).pipe(Effect.scoped))
})
