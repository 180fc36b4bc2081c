/**
 * A claim yields each accepted operation once, oldest first, and only while the owner's consent stands. The tests run
 * against PostgreSQL and the memory store.
 */
import { assert } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { operationsRead, Scope } from "../../../../src/domain/Grant.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { newRegistration, register } from "../../../fixtures/ledger/ExternalGrants.ts"
import {
  accept,
  expiredIn,
  identityOf,
  issue,
  issueAgain,
  newClient,
  newOwner,
  newProvider,
  newSubject,
  queueConformance
} from "../../../fixtures/ledger/Ledger.ts"
import {
  acceptSeveral,
  claimIds,
  claimTerms,
  failOver,
  inspect,
  isAbout,
  issueAtNewProvider,
  pass,
  queued,
  standingLosses
} from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

const [paymentsWrite, refundsWrite] = [Scope.make("payments:write"), Scope.make("refunds:write")]

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

  it.effect("takes the oldest operations first, up to the limit", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const ids = yield* acceptSeveral(identity, 7)
      assert.sameMembers([...yield* claimIds(grant.provider, 3)], ids.slice(0, 3))
      assert.sameMembers([...yield* claimIds(grant.provider, 1)], ids.slice(3, 4))
      assert.deepStrictEqual(yield* claimIds(grant.provider, 0), [])
      assert.sameMembers([...yield* claimIds(grant.provider, 100)], ids.slice(4))
      assert.deepStrictEqual(yield* claimIds(grant.provider, 100), [])
    }))

  it.effect("takes operations of the provider that it names, and no others", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const other = yield* issueAgain(grant, { provider: newProvider() })
      const [mine] = yield* acceptSeveral(identity, 1)
      const [theirs] = yield* acceptSeveral(other.identity, 1)
      assert.deepStrictEqual(yield* claimIds(newProvider()), [])
      assert.deepStrictEqual(yield* claimIds(grant.provider), [mine!])
      assert.deepStrictEqual(yield* claimIds(other.grant.provider), [theirs!])
    }))

  it.effect("takes only accepted operations, and each of them once", () =>
    Effect.gen(function*() {
      const issued = yield* issueAtNewProvider()
      for (const state of specifiedStates.filter((state) => state !== "accepted")) {
        yield* queued(issued, state)
        yield* pass("1 day")
        assert.deepStrictEqual(yield* claimIds(issued.grant.provider), [], state)
      }
    }))
})

queueConformance("an operation that waits to be claimed", (it) => {
  for (const { lose, name, restore } of standingLosses) {
    it.effect(`waits while ${name}, and is claimed once that is over`, () =>
      Effect.gen(function*() {
        const { grant, identity } = yield* issueAtNewProvider()
        const { operation } = yield* accept(identity)
        yield* lose(grant)
        assert.deepStrictEqual(yield* claimIds(grant.provider), [])
        isAbout((yield* inspect(operation.id)).due_in, claimTerms.idle)
        yield* restore(grant)
        assert.deepStrictEqual(yield* claimIds(grant.provider), [], "a claim examines it again only when it is due")
        yield* pass(claimTerms.idle)
        assert.deepStrictEqual(yield* claimIds(grant.provider), [operation.id])
      }))
  }

  it.effect("is claimed through any live grant of the same owner, subject, client and provider connection", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* issueAgain(grant)
      yield* issueAgain(grant, { expires_in: expiredIn })
      yield* grants.revoke(grant.grant_id)
      assert.deepStrictEqual(yield* claimIds(grant.provider), [operation.id])
    }))

  for (
    const [what, other] of [
      ["owner", () => ({ resource_owner: newOwner() })],
      ["subject", () => ({ subject: newSubject() })],
      ["client", () => ({ client_id: newClient() })],
      ["provider connection", () => ({ provider: newProvider() })]
    ] as const
  ) {
    it.effect(`does not get its grant's standing from a grant of another ${what}`, () =>
      Effect.gen(function*() {
        const grants = yield* Grants
        const { grant, identity } = yield* issueAtNewProvider()
        yield* accept(identity)
        yield* issueAgain(grant, other())
        yield* grants.revoke(grant.grant_id)
        assert.deepStrictEqual(yield* claimIds(grant.provider), [])
      }))
  }

  it.effect("is not claimed through a grant with fewer scopes than the one that accepted it", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant, identity } = yield* issueAtNewProvider({ scopes: [operationsRead, paymentsWrite] })
      const { operation } = yield* accept(identity)
      yield* issueAgain(grant, { scopes: [operationsRead] })
      yield* grants.revoke(grant.grant_id)
      assert.deepStrictEqual(yield* claimIds(grant.provider), [])
      yield* issueAgain(grant, { scopes: [paymentsWrite, operationsRead, refundsWrite] })
      yield* pass(claimTerms.idle)
      assert.deepStrictEqual(yield* claimIds(grant.provider), [operation.id])
    }))

  it.effect("is not claimed after its own grant lost a scope that it had at acceptance", () =>
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

  it.effect("waits until it is due, also while another operation that waits is due", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant, identity } = yield* issueAtNewProvider()
      const other = yield* issueAtNewProvider({ provider: grant.provider })
      const connect = (grantOf: typeof grant, connected: boolean) =>
        grants.setProviderConnected(grantOf.provider_connection_id, connected)
      const putOff = Effect.fnUntraced(function*(grantOf: typeof grant) {
        yield* connect(grantOf, false)
        assert.deepStrictEqual(yield* claimIds(grant.provider), [])
        yield* connect(grantOf, true)
      })
      const { operation: early } = yield* accept(identity)
      yield* putOff(grant)
      yield* pass("5 minutes")
      const { operation: late } = yield* accept(other.identity)
      yield* putOff(other.grant)
      yield* pass("6 minutes")
      assert.deepStrictEqual(yield* claimIds(grant.provider), [early.id])
      yield* pass("6 minutes")
      assert.deepStrictEqual(yield* claimIds(grant.provider), [late.id])
    }))

  it.effect("takes an operation that was accepted while the clock was ahead", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* pass(Duration.minutes(-10))
      const { due_in } = yield* inspect(operation.id)
      assert.isAbove(due_in!, 0)
      assert.deepStrictEqual(yield* claimIds(grant.provider), [operation.id])
    }))

  it.effect("is examined less often the longer ago consent was revoked, and at least every five minutes", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* grants.revoke(grant.grant_id)
      const terms = { ...claimTerms, idle: Duration.seconds(30) }
      for (
        const [age, wait] of [["0 seconds", "30 seconds"], ["20 minutes", "2 minutes"], ["1 day", "5 minutes"]] as const
      ) {
        yield* pass(age)
        yield* claimIds(grant.provider, 1, terms)
        isAbout((yield* inspect(operation.id)).due_in, Duration.fromInputUnsafe(wait))
      }
    }))

  it.effect("is put under review once it waits for too long, also after an operator cleared it; it stays accepted at any age", () =>
    Effect.gen(function*() {
      const grants = yield* Grants
      const ledger = yield* OperationLedger
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity)
      yield* grants.setProviderConnected(grant.provider_connection_id, false)
      const isReviewed = Effect.fnUntraced(function*(under_review: boolean) {
        yield* claimIds(grant.provider)
        assert.deepInclude(yield* ledger.show(operation.id), { state: "accepted", revision: 1, under_review })
      })
      for (let round = 0; round < 2; round++) {
        yield* pass("59 minutes")
        yield* isReviewed(false)
        yield* pass("10 minutes")
        yield* isReviewed(true)
        if (round === 0) yield* ledger.review(operation.id, false)
      }
      yield* pass("3650 days")
      yield* isReviewed(true)
      assert.lengthOf(yield* ledger.history(operation.id), 1)
    }))

  it.effect("is not claimed after a change of the timeline; operations accepted after the change are", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      yield* acceptSeveral(identity, 3)
      yield* failOver
      const [later] = yield* acceptSeveral(identity, 1)
      assert.deepStrictEqual(yield* claimIds(grant.provider), [later!])
      yield* pass("1 day")
      assert.deepStrictEqual(yield* claimIds(grant.provider), [])
    }))
})
