/**
 * Reads work where writes are impossible, and check the grant in the same statement. The tests read over read-only
 * connections to PostgreSQL and record the statements.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { bearer } from "../../../../src/domain/Credential.ts"
import type { GrantIdentity } from "../../../../src/domain/Grant.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { Readiness } from "../../../../src/services/Readiness.ts"
import { GrantVerifier } from "../../../../src/services/verification/GrantVerifier.ts"
import { accept, everything, issue, newKey, operationIn, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { anotherPool, anotherProcess } from "../../../fixtures/postgres/Pools.ts"
import { layerRecorded, Statements } from "../../../fixtures/postgres/Statements.ts"

const readOnly = { startupParameters: { default_transaction_read_only: "on" } }

/** The grant for a token with a budget, whose rest is a sum over operations. */
const limited = (grant: GrantIdentity): GrantIdentity => ({
  ...grant,
  authorization_details: [{
    type: "financial_operations",
    budgets: [{ currency: "EUR", amount: "900.00", per: "grant" }]
  }]
})

layer(PostgresLedger, { excludeTestServices: true })("reads", (it) => {
  const reads = Effect.fnUntraced(function*() {
    const { access_token, identity } = yield* issue()
    const operation = yield* operationIn(identity, "failed")
    return Effect.gen(function*() {
      const store = yield* OperationStore
      const verifier = yield* GrantVerifier
      const grant = yield* verifier.verify(bearer(access_token))
      assert.deepStrictEqual(yield* store.find(grant, operation.id), operation)
      const { created_at } = operation
      const queries = [
        everything,
        { ...everything, page_size: 1 },
        { ...everything, states: ["failed", "accepted"] as const },
        { ...everything, type: "payment" },
        { ...everything, after: { created_at, id: operation.id } },
        { ...everything, created_after: created_at, created_before: created_at },
        { ...everything, key: newKey() },
        { ...everything, key: newKey(), states: ["failed"] as const, type: "payment", created_after: created_at }
      ]
      for (const query of queries) yield* store.list(grant, query)
      assert.lengthOf(yield* store.limits(limited(grant)), 1)
    })
  })

  it.effect("work on connections that cannot write", () =>
    Effect.gen(function*() {
      yield* Effect.provide(yield* reads(), anotherProcess(readOnly))
      yield* Readiness.use((readiness) => readiness.check).pipe(
        Effect.provide(Layer.provide(Readiness.layer, anotherPool(readOnly)))
      )
    }))

  it.effect("are all that such connections can do: an acceptance fails", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const exit = yield* Effect.exit(accept(identity)).pipe(Effect.provide(anotherProcess(readOnly)))
      assert.isTrue(Exit.isFailure(exit))
      assert.isEmpty((yield* OperationStore.use((store) => store.list(identity, everything))).operations)
    }))

  it.effect("are one statement each: the grant check and the read share a snapshot", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const { operation } = yield* accept(identity)
      yield* Effect.gen(function*() {
        const store = yield* OperationStore
        const statements = yield* Statements
        yield* store.find(identity, operation.id)
        assert.lengthOf(statements, 1)
        yield* store.list(identity, everything)
        assert.lengthOf(statements, 2)
        yield* store.list(identity, { ...everything, states: ["failed"], type: "payment" })
        assert.lengthOf(statements, 3)
        yield* store.list(identity, { ...everything, key: newKey() })
        assert.lengthOf(statements, 4)
        yield* store.limits(limited(identity))
        assert.lengthOf(statements, 5)
        for (const { text } of statements) assert.match(text, /^\s*SELECT\b[^;]*$/)
      }).pipe(Effect.provide(Layer.fresh(OperationStore.layer.pipe(Layer.provideMerge(layerRecorded)))))
    }))
})
