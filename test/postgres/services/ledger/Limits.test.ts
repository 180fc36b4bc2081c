/**
 * The limits of grants hold, under any requests, outcomes, times and batches, and for many callers at once. Both ledgers give the same
 * answers, and no budget is ever exceeded.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { AuthorizationDetails } from "../../../../src/domain/AuthorizationDetails.ts"
import type { GrantIdentity } from "../../../../src/domain/Grant.ts"
import { type FinancialRequest, IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { newRegistration, register } from "../../../fixtures/ledger/ExternalGrants.ts"
import { conformance, drive, issue, pathTo, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { answerOf, details, eur, narrow, request } from "../../../fixtures/ledger/LimitedPayments.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

conformance("limits", (it) => {
  it.effect("refuse what they do not permit, each by its reason, and record nothing", () =>
    Effect.gen(function*() {
      const { acceptAll, bound } = yield* OperationLedger
      const { identity } = yield* issue({ authorization_details: details })
      const refused: ReadonlyArray<readonly [FinancialRequest, unknown]> = [
        [{ ...request("1", { amount: "1" }), type: "trade" }, "PayeeNotAllowed"],
        [request("2", { amount: "1", payee: "C" }), "PayeeNotAllowed"],
        [request("3", { amount: "1", currency: "USD" }), ["OperationNotCovered", "currency"]],
        [request("4", { amount: "1", currency: "JPY" }), ["OperationNotCovered", "currency"]],
        [request("5", { amount: "60.01" }), ["LimitExceeded", details[0]!.max_amount![0], "60.00", null]],
        [{ type: "transfer", key: IdempotencyKey.make("6"), payload: {} }, "TermsRequired"]
      ]
      const results = yield* acceptAll(identity, refused.map(([request]) => request))
      assert.deepStrictEqual(results.slice(1).map(answerOf), refused.slice(1).map(([, answer]) => answer))
      assert.isNull(yield* bound({ ...identity, key: IdempotencyKey.make("5") }))
      const { identity: other } = yield* issue({ authorization_details: narrow })
      const [uncovered] = yield* acceptAll(other, [request("1", { amount: "1", type: "refund" })])
      assert.deepStrictEqual(answerOf(uncovered!), ["OperationNotCovered", "operation_type"])
    }))

  it.effect("leave nothing, and never less, of a limit of a credential that others of the grant have exceeded", () =>
    Effect.gen(function*() {
      const { acceptAll } = yield* OperationLedger
      const { identity } = yield* issue({ authorization_details: details })
      yield* acceptAll(identity, ["1", "2"].map((key) => request(key, { amount: "50" })))
      const [refused] = yield* acceptAll({ ...identity, authorization_details: narrow }, [
        request("3", { amount: "1" })
      ])
      assert.deepStrictEqual(answerOf(refused!), ["LimitExceeded", narrow[0]!.budgets![0], "0.00", null])
    }))

  it.effect("refuse no repetition of a request that had neither limits nor terms", () =>
    Effect.gen(function*() {
      const { accept, acceptAll } = yield* OperationLedger
      const { identity } = yield* issue()
      const bare = { type: "transfer", key: IdempotencyKey.make("bare"), payload: {} }
      yield* accept(identity, bare)
      const [repeated] = yield* acceptAll({ ...identity, authorization_details: narrow }, [bare])
      assert.strictEqual(answerOf(repeated!), "repeated")
    }))

  it.effect("keep an amount until the operation failed or was cancelled, and refuse no repetition", () =>
    Effect.gen(function*() {
      const { accept, acceptAll } = yield* OperationLedger
      const limits: AuthorizationDetails = [{ type: "financial_operations", budgets: [eur("10.00", { per: "grant" })] }]
      const remaining = (grant: GrantIdentity) =>
        Effect.map(OperationStore.use((store) => store.limits(grant)), (all) => all.map(({ remaining }) => remaining))
      for (const state of specifiedStates) {
        const { identity } = yield* issue({ authorization_details: limits })
        const first = request("first", { amount: "10" })
        const { operation } = yield* accept(identity, first)
        yield* drive(operation, pathTo[state])
        const released = state === "failed" || state === "cancelled"
        assert.deepStrictEqual(yield* remaining(identity), [released ? "10.00" : "0.00"], state)
        const [repeated, next] = yield* acceptAll(identity, [first, request("next", { amount: "0.01" })])
        assert.strictEqual(answerOf(repeated!), "repeated")
        assert.deepStrictEqual(
          answerOf(next!),
          released ? "created" : ["LimitExceeded", limits[0]!.budgets![0], "0.00", null],
          state
        )
        assert.deepStrictEqual(
          (yield* Grants.use((grants) => grants.limits(identity.grant_id))).map(({ limit }) => limit),
          [...limits[0]!.budgets!]
        )
      }
    }))

  it.effect("count an operation that gave its amount back again once the provider proves that it was paid", () =>
    Effect.gen(function*() {
      const { accept, acceptAll } = yield* OperationLedger
      const queue = yield* Queue
      const limits: AuthorizationDetails = [
        { type: "financial_operations", budgets: [eur("10.00", { per: "grant" })] },
        { type: "financial_operations", operation_types: ["refund"], budgets: [eur("5.00", { per: "day" })] }
      ]
      const proof = { reference: null, evidence: { paid: true } }
      for (const state of ["failed", "cancelled"] as const) {
        const { identity } = yield* issue({ authorization_details: limits })
        const { identity: other } = yield* issue({ authorization_details: limits })
        const remaining = (grant: GrantIdentity) =>
          Effect.map(OperationStore.use((store) => store.limits(grant)), (all) => all.map(({ remaining }) => remaining))
        const { operation } = yield* accept(identity, request("first", { amount: "6" }))
        yield* drive(operation, pathTo[state])
        assert.deepStrictEqual(yield* remaining(identity), ["10.00", "5.00"], state)
        yield* queue.contradict(operation.id, { state: "succeeded", ...proof })
        // Once, however often it is proved.
        yield* queue.contradict(operation.id, { state: "succeeded", ...proof })
        assert.deepStrictEqual(yield* remaining(identity), ["4.00", "5.00"], state)
        assert.deepStrictEqual(yield* remaining(other), ["10.00", "5.00"], state)
        const answers = yield* acceptAll(identity, ["4.01", "4"].map((amount) => request(amount, { amount })))
        assert.deepStrictEqual(
          answers.map(answerOf),
          [["LimitExceeded", limits[0]!.budgets![0], "4.00", null], "created"],
          state
        )
      }
      // The return of a success is no new budget, and counts no second time.
      const { identity } = yield* issue({ authorization_details: limits })
      const { operation } = yield* accept(identity, request("first", { amount: "6" }))
      yield* drive(operation, pathTo.succeeded)
      yield* queue.contradict(operation.id, { state: "failed", ...proof })
      assert.deepStrictEqual(
        (yield* OperationStore.use((store) => store.limits(identity))).map(({ remaining }) => remaining),
        ["4.00", "5.00"]
      )
    }))
})

const daily = (time_zone: string, amount = "10"): AuthorizationDetails => [{
  type: "financial_operations",
  budgets: [eur(amount, { per: "day", time_zone })]
}]

/** Why a grant cannot have these limits, by both ways to give them. */
const refusals = (authorization_details: AuthorizationDetails) =>
  Effect.all([
    Effect.flip(issue({ authorization_details })),
    Effect.flip(register(newRegistration({ authorization_details })))
  ])

conformance("a grant", (it) => {
  it.effect("gets no limits that cannot be held, with any part missing", () =>
    Effect.gen(function*() {
      for (const invalid of [daily("Europe/Nowhere"), daily("UTC", "-1"), daily("UTC", "1".repeat(41)), []]) {
        for (const { _tag } of yield* refusals(invalid)) assert.strictEqual(_tag, "InvalidAuthorizationDetails")
      }
    }))
})

layer(Layer.fresh(PostgresLedger), { excludeTestServices: true })("a database without a time zone", (it) => {
  it.effect("refuses limits in it, and a credential with them, and no other", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue()
      // A time zone that only the code knows.
      yield* sql.unsafe(`
        CREATE OR REPLACE FUNCTION local_midnight(p_day timestamp, p_zone text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
        BEGIN
          RETURN p_day AT TIME ZONE replace(p_zone, 'Berlin', 'Nowhere');
        END $$`)
      for (const error of yield* refusals(daily("Europe/Berlin"))) {
        assert.strictEqual(error._tag, "InvalidAuthorizationDetails")
        assert.include(error.message, "Europe/Nowhere")
      }
      const ledger = yield* OperationLedger
      const store = yield* OperationStore
      const told = (authorization_details: AuthorizationDetails, key: string) => {
        const limited = { ...identity, authorization_details }
        return Effect.all([
          Effect.match(ledger.accept(limited, request(key, { amount: "1" })), {
            onSuccess: () => "accepted",
            onFailure: ({ _tag }) => _tag
          }),
          Effect.match(store.limits(limited), { onSuccess: () => "read", onFailure: ({ _tag }) => _tag })
        ])
      }
      assert.deepStrictEqual(yield* told(daily("Europe/Berlin"), "berlin"), ["GrantUnknown", "GrantUnknown"])
      assert.deepStrictEqual(yield* told(daily("Europe/Paris"), "paris"), ["accepted", "read"])
    }))
})
