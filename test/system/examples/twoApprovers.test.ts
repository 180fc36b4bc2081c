/**
 * The treasury agent of `docs/spending.md`: a large transfer is sent after two different people approved it, by the code of the example.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs"
import { approve, createTable } from "../../../examples/twoApprovers.ts"
import type { AuthorizationDetails } from "../../../src/domain/AuthorizationDetails.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import { Approvals } from "../../../src/services/Approvals.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { accept, PostgresLedger } from "../../fixtures/ledger/Ledger.ts"
import { claimIds, issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"

/** The limits of the treasury agent, as the page shows them. */
const treasury = [...fs.readFileSync("docs/spending.md", "utf8").matchAll(/^```json\n(.*?)^```/gms)]
  .map(([, json]) => JSON.parse(json!) as AuthorizationDetails)
  .find(([first]) => first!.approval !== undefined && first!.budgets !== undefined)!

const transferOf = Effect.gen(function*() {
  yield* createTable
  const { grant, identity } = yield* issueAtNewProvider({ authorization_details: treasury })
  const transfer = (amount: string) =>
    Effect.map(
      accept(identity, { type: "transfer", terms: { amount, currency: "EUR", payee: treasury[0]!.payees![0]! } }),
      ({ operation }) => operation
    )
  return { provider: grant.provider, transfer }
})

const shown = (id: OperationId) => Approvals.use(({ find }) => Effect.map(find(id), (approval) => approval!))

layer(PostgresLedger, { excludeTestServices: true })("the treasury agent", (it) => {
  it.effect("moves a large amount after two different people approved it, and a small one at once", () =>
    Effect.gen(function*() {
      const { provider, transfer } = yield* transferOf
      const small = yield* transfer("100000.00")
      assert.deepStrictEqual(yield* claimIds(provider), [small.id])
      const large = yield* transfer("100000.01")
      const seen = yield* shown(large.id)
      assert.isNull(yield* approve("anna", seen))
      assert.isNull(yield* approve("anna", seen))
      // Of another request, such as that of an earlier page.
      assert.isNull(yield* approve("ben", { ...seen, request_digest: "0".repeat(64) }))
      assert.deepStrictEqual(yield* claimIds(provider), [])
      const approved = yield* approve("ben", seen)
      assert.deepInclude(approved, { state: "approved", decided_as: "owner", reason: "Approved by anna and ben" })
      assert.deepStrictEqual(yield* claimIds(provider), [large.id])
      const ledger = yield* OperationLedger
      assert.deepInclude((yield* ledger.history(large.id)).at(-1)!.evidence, { reason: "Approved by anna and ben" })
    }))

  it.effect("gets one decision, of two people, however many approve at once", () =>
    Effect.gen(function*() {
      const { transfer } = yield* transferOf
      for (let round = 0; round < 10; round++) {
        const seen = yield* shown((yield* transfer("150000.00")).id)
        const results = yield* Effect.forEach(
          ["anna", "ben", "anna", "carla"],
          (person) => Effect.result(approve(person, seen)),
          { concurrency: "unbounded" }
        )
        const decided = results.filter((result) => result._tag === "Success" && result.success !== null)
        assert.lengthOf(decided, 1)
        const { reason } = yield* shown(seen.operation_id)
        const [, first, second] = /^Approved by (\w+) and (\w+)$/.exec(reason!)!
        assert.notStrictEqual(first, second)
        yield* Effect.flip(approve("dora", seen))
      }
    }))
})
