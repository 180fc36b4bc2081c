/**
 * A grant without the required scope accepts no request, new or repeated. The tests run against PostgreSQL and the
 * memory store.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { operationsRead, Scope } from "../../../src/domain/Grant.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { conformance, fieldsOf, issue, newKey } from "../../fixtures/Ledger.ts"

const write = Scope.make("payments:write")

conformance("acceptance under a scope", (it) => {
  it.effect("is refused if the grant lacks the scope, and records nothing", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue({ scopes: [operationsRead] })
      const request = { type: "payment", key: newKey(), payload: 1 }
      const refused = yield* Effect.flip(ledger.accept(identity, request, write))
      assert.strictEqual(refused._tag, "InsufficientScope")
      assert.deepInclude(fieldsOf(refused), { required: write })
      assert.isTrue(
        (yield* ledger.accept(identity, request)).created,
        "the key is still unbound, and this call requires no scope"
      )
    }))

  it.effect("is refused if the grant lacks the scope, also for a key that is already bound", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue({ scopes: [operationsRead] })
      const request = { type: "payment", key: newKey(), payload: 1 }
      yield* ledger.accept(identity, request)
      assert.strictEqual((yield* Effect.flip(ledger.accept(identity, request, write)))._tag, "InsufficientScope")
    }))

  it.effect("succeeds if the grant has the scope", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity } = yield* issue({ scopes: [operationsRead, write] })
      const accepted = yield* ledger.accept(identity, { type: "payment", key: newKey(), payload: 1 }, write)
      assert.isTrue(accepted.created)
    }))
})
