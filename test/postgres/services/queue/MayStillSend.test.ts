/**
 * A claim may still be sent exactly while consent, client and provider stand and the claim is held. The tests change each of them in
 * both implementations of the queue.
 */
import { assert } from "@effect/vitest"
import { DateTime, Duration, Effect } from "effect"
import { operationsRead, Scope } from "../../../../src/domain/Grant.ts"
import { type GrantRequest, Grants } from "../../../../src/services/Grants.ts"
import { conformance, issueAgain } from "../../../fixtures/ledger/Ledger.ts"
import { claimedOperation, claimTerms, pass, recording, standingLosses } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

conformance("a claim", (it) => {
  const claimOne = Effect.fnUntraced(function*(request: Partial<GrantRequest> = {}) {
    return { ...yield* claimedOperation(request), queue: yield* Queue }
  })

  for (const { lose, name, restore } of standingLosses.filter(({ name }) => !name.includes("expired"))) {
    it.effect(`may still be sent until ${name}, and again once that is over`, () =>
      Effect.gen(function*() {
        const { claim, grant, queue } = yield* claimOne()
        assert.isTrue(yield* queue.mayStillSend(claim))
        yield* lose(grant)
        assert.isFalse(yield* queue.mayStillSend(claim))
        yield* restore(grant)
        assert.isTrue(yield* queue.mayStillSend(claim))
      }))
  }

  it.effect("may still be sent until its grant has expired, and again through a new one", () =>
    Effect.gen(function*() {
      const { claim, grant, queue } = yield* claimOne({ expires_in: Duration.minutes(5) })
      /** The claim as the ledger stores it, after this much time has passed in the test. */
      const after = (minutes: number) => {
        const { operation, revision } = claim
        return {
          revision,
          operation: { ...operation, send_before: DateTime.subtract(operation.send_before!, { minutes }) }
        }
      }
      yield* pass("4 minutes")
      assert.isTrue(yield* queue.mayStillSend(after(4)))
      yield* pass("2 minutes")
      assert.isFalse(yield* queue.mayStillSend(after(6)))
      yield* issueAgain(grant)
      assert.isTrue(yield* queue.mayStillSend(after(6)))
    }))

  it.effect("may be sent through another grant with the same scopes, and through none with fewer", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const write = Scope.make("payments:write")
      const { claim, grant, queue } = yield* claimOne({ scopes: [operationsRead, write] })
      yield* issueAgain(grant, { scopes: [operationsRead] })
      yield* grants.revoke(grant.grant_id)
      assert.isFalse(yield* queue.mayStillSend(claim))
      yield* issueAgain(grant, { scopes: [write, operationsRead] })
      assert.isTrue(yield* queue.mayStillSend(claim))
    }))

  it.effect("may not be sent after it was rescued or recorded, nor under another revision or deadline", () =>
    Effect.gen(function*() {
      const { claim, id, queue } = yield* claimOne()
      assert.isFalse(yield* queue.mayStillSend({ ...claim, revision: claim.revision + 1 }))
      assert.isFalse(yield* queue.mayStillSend({ ...claim, operation: { ...claim.operation, send_before: null } }))
      yield* queue.record(id, claim.revision, { state: "submitted" }, recording())
      assert.isFalse(yield* queue.mayStillSend(claim))
      const { claim: stale } = yield* claimOne()
      yield* queue.rescue(1000)
      assert.isTrue(yield* queue.mayStillSend(stale))
      yield* pass(claimTerms.rescue_after)
      yield* queue.rescue(1000)
      assert.isFalse(yield* queue.mayStillSend(stale))
    }))
})
