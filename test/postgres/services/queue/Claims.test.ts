/**
 * What a claim yields and stores. `QueueModel` has what is claimed, and when. The tests run against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Duration, Effect } from "effect"
import type { AuthorizationDetails } from "../../../../src/domain/AuthorizationDetails.ts"
import { type Grant, operationsRead, Scope } from "../../../../src/domain/Grant.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { newRegistration, register } from "../../../fixtures/ledger/ExternalGrants.ts"
import {
  accept,
  identityOf,
  issue,
  issueAgain,
  newProvider,
  queueConformance
} from "../../../fixtures/ledger/Ledger.ts"
import {
  claimedOperation,
  claimIds,
  claimTerms,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  returnTerms
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

const terms = { amount: "70.00", currency: "EUR", payee: "A" }

const limits: AuthorizationDetails = [{
  type: "financial_operations",
  budgets: [{ currency: "EUR", amount: "100.00", per: "grant" }]
}]

const paymentsWrite = Scope.make("payments:write")

queueConformance("a claim", (it) => {
  it.effect("moves an accepted operation to submitting, and yields all that the provider needs, with a send deadline", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const queue = yield* Queue
      const { grant, identity } = yield* issueAtNewProvider()
      const payload = { amount: "10.00", to: ["ünïcode", null, 1.5] }
      const { operation } = yield* accept(identity, { type: "payment.refund", payload })
      const [claim, ...others] = yield* queue.claim(grant.provider, 10, claimTerms)
      assert.isEmpty(others)
      assert.deepStrictEqual({ ...claim!.operation, send_before: null }, {
        id: operation.id,
        type: "payment.refund",
        resource_owner: grant.resource_owner,
        provider_connection_id: grant.provider_connection_id,
        send_before: null
      })
      assert.strictEqual(claim!.revision, 2)
      const { send_before } = claim!.operation
      const within = send_before!.epochMilliseconds - claim!.claimed_at.epochMilliseconds
      assert.approximately(within, Duration.toMillis(claimTerms.send_within), 1, "both by the clock of the database")
      assert.deepStrictEqual(yield* claim!.payload, payload)
      const shown = yield* ledger.show(operation.id)
      assert.deepStrictEqual(shown, {
        ...operation,
        state: "submitting",
        submission_uncertain: true,
        revision: 2,
        updated_at: shown.updated_at
      })
      const { due_in, send_before_in } = yield* inspect(operation.id)
      isAbout(send_before_in, claimTerms.send_within)
      isAbout(due_in, claimTerms.rescue_after)
      const { at, ...entry } = (yield* ledger.history(operation.id))[1]!
      assert.deepStrictEqual(entry, { revision: 2, from: "accepted", to: "submitting", evidence: null })
      assert.deepStrictEqual(at, shown.updated_at)
    }))

  it.effect("is not made after the own grant of the operation lost a scope that it had at acceptance", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const registration = newRegistration({ provider: newProvider(), scopes: [operationsRead, paymentsWrite] })
      const { provider } = registration
      const { operation } = yield* accept(identityOf(yield* register(registration)))
      yield* register({ ...registration, scopes: [operationsRead] })
      assert.deepStrictEqual(yield* claimIds(provider), [])
      yield* grants.revokeExternal(registration)
      const { grant } = yield* issue({ ...registration, expires_in: Duration.days(1), scopes: [operationsRead] })
      yield* pass(claimTerms.idle)
      assert.deepStrictEqual(yield* claimIds(provider), [], "nor through another grant that never had the scope")
      yield* issueAgain(grant, { scopes: [operationsRead, paymentsWrite] })
      yield* pass(claimTerms.idle)
      assert.deepStrictEqual(yield* claimIds(provider), [operation.id])
    }))

  // Those of the token hold for the acceptance alone.
  for (
    const [accepted, ofToken] of [["no limits", {}], ["limits of its token", {
      authorization_details: limits
    }]] as const
  ) {
    it.effect(`is not made after the own grant of the operation got limits, nor through another one with the same: ${accepted}`, () =>
      Effect.gen(function*() {
        const grants = yield* Grants
        const registration = newRegistration({ provider: newProvider() })
        const { provider } = registration
        const { operation } = yield* accept({ ...identityOf(yield* register(registration)), ...ofToken }, { terms })
        const { grant_id } = yield* register({ ...registration, authorization_details: limits })
        assert.deepStrictEqual(yield* claimIds(provider), [])
        yield* grants.revoke(grant_id)
        const { grant } = yield* issue({
          ...registration,
          authorization_details: limits,
          expires_in: Duration.days(1)
        })
        yield* pass(claimTerms.idle)
        assert.deepStrictEqual(yield* claimIds(provider), [])
        yield* issueAgain(grant)
        yield* pass(claimTerms.idle)
        assert.deepStrictEqual(yield* claimIds(provider), [operation.id])
      }))
  }

  it.effect("through another grant with the same limits counts in the budgets of the accepting grant alone", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const remaining = ({ grant_id }: Grant) =>
        Effect.map(grants.limits(grant_id), (limits) => limits.map(({ remaining }) => remaining))
      const { grant, identity } = yield* issueAtNewProvider({ authorization_details: limits })
      const { operation } = yield* accept(identity, { terms })
      yield* grants.revoke(grant.grant_id)
      const { grant: other } = yield* issueAgain(grant, { authorization_details: limits })
      assert.deepStrictEqual(yield* claimIds(grant.provider), [operation.id])
      assert.deepStrictEqual([yield* remaining(grant), yield* remaining(other)], [["30.00"], ["100.00"]])
    }))

  it.effect("that is returned has a reason that can be stored", () =>
    Effect.gen(function*() {
      const queue = yield* Queue
      const reasons = [
        ["", "no reason given"],
        ["a\0b", "a\uFFFDb"],
        ["x".repeat(2000), "x".repeat(1024)],
        [`${"x".repeat(1023)}😀`, `${"x".repeat(1023)}\uFFFD`]
      ] as const
      for (const [reason, stored] of reasons) {
        const { claim, id } = yield* claimedOperation()
        yield* queue.returnClaim(claim, { ...returnTerms, reason })
        assert.strictEqual(yield* OperationLedger.use((ledger) => ledger.returnReason(id)), stored)
      }
    }))
})
