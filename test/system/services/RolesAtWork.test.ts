/**
 * The generated roles have the privileges that the gateway, its workers and its operators need. The tests run the real
 * services as each role.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { bearer } from "../../../src/domain/Credential.ts"
import {
  ClientId,
  ExternalId,
  type GrantIdentity,
  Issuer,
  operationsRead,
  PairwiseSubject,
  ProviderName,
  ResourceOwner,
  Scope
} from "../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../src/domain/Idempotency.ts"
import { permitTerms } from "../../../src/domain/ProviderLimit.ts"
import { PgAcceptanceSignal } from "../../../src/node/postgres/PgAcceptanceSignal.ts"
import { GrantBlockers } from "../../../src/services/GrantBlockers.ts"
import { Grants } from "../../../src/services/Grants.ts"
import { OperationFeed } from "../../../src/services/OperationFeed.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../src/services/OperationStore.ts"
import { OperationSearch } from "../../../src/services/operators/OperationSearch.ts"
import { OperatorActions } from "../../../src/services/operators/OperatorActions.ts"
import { Readiness } from "../../../src/services/Readiness.ts"
import { SubmissionQueue } from "../../../src/services/SubmissionQueue.ts"
import { GrantVerifier } from "../../../src/services/verification/GrantVerifier.ts"
import { ProofReplay } from "../../../src/services/verification/ProofReplay.ts"
import { AcceptanceSignal } from "../../../src/services/WorkSignals.ts"
import { SubmissionWorker } from "../../../src/submission/attempts/SubmissionWorker.ts"
import { everything } from "../../fixtures/ledger/Ledger.ts"
import {
  claimTerms,
  late,
  readTerms,
  recording,
  reference,
  returnTerms,
  takeOverSoon
} from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { denied, rolesWith } from "../../fixtures/postgres/Roles.ts"
import { Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { makeWorld } from "../../fixtures/submission/World.ts"

const request = {
  resource_owner: ResourceOwner.make("owner"),
  subject: PairwiseSubject.make("subject"),
  client_id: ClientId.make("client"),
  provider: ProviderName.make("bank"),
  scopes: [operationsRead],
  expires_in: Duration.hours(1)
}

const registration = {
  ...request,
  issuer: Issuer.make("https://as.example"),
  grant: ExternalId.make("grant"),
  client_id: ClientId.make("their-client"),
  expires_at: DateTime.makeUnsafe("2100-01-01T00:00:00Z")
}

/** All work of workers and operators, until each operation is settled and its payload erased. */
const submit = Effect.fnUntraced(function*(identity: GrantIdentity) {
  const feed = yield* OperationFeed
  const ledger = yield* OperationLedger
  const queue = yield* Queue
  const sql = yield* SqlClient.SqlClient
  const { provider } = request
  const acceptNext = (key: string) =>
    ledger.accept(identity, { type: "payment", key: IdempotencyKey.make(key), payload: key })
  assert.deepStrictEqual(yield* queue.prepare, { moved: false })
  yield* acceptNext("sent")
  const demand = { submissions: 1, reads: 1 }
  const limit = permitTerms({ requests: 50, interval: "1 second" }, 250)
  assert.lengthOf((yield* queue.openPermits(provider, demand, limit)).submissions.permits, 1)
  assert.lengthOf((yield* queue.reservePermits(provider, demand, limit)).reads.permits, 1)
  yield* queue.closeProvider(provider, Duration.minutes(1))
  assert.isEmpty((yield* queue.reservePermits(provider, demand, limit)).submissions.permits)
  const [claim] = yield* queue.claim(provider, 1, claimTerms)
  const { id } = claim!.operation
  yield* queue.returnClaim(claim!, { ...returnTerms, delay: Duration.zero })
  assert.strictEqual(yield* ledger.returnReason(id), returnTerms.reason)
  const takenOver = yield* takeOverSoon(provider)
  assert.isTrue(yield* queue.mayStillSend(takenOver))
  assert.strictEqual(yield* takenOver.payload, "sent")
  yield* queue.record(
    id,
    2,
    { state: "submitted" },
    recording({ reference: reference("theirs"), due_in: Duration.zero })
  )
  assert.lengthOf(yield* queue.takeReads(provider, 1, readTerms), 1)
  yield* queue.postpone(id, 3, { due_in: Duration.minutes(1), reference: null })
  assert.strictEqual(yield* queue.hint(provider, { operation_id: id }, Duration.minutes(1)), "due")
  assert.deepStrictEqual(
    yield* queue.recordAll([{ id, revision: 3, outcome: { state: "succeeded" }, recording: recording() }]),
    [true]
  )
  yield* queue.rescue(10)
  yield* queue.rescueClaimsOf("worker")

  const together = ["together-1", "together-2"].map((key) => ({
    type: "payment",
    key: IdempotencyKey.make(key),
    payload: key
  }))
  for (const acceptance of yield* ledger.acceptAll(identity, together)) {
    const { operation } = yield* acceptance
    yield* ledger.cancel(operation.id, null)
  }

  const { operation: held } = yield* acceptNext("held")
  const { operation: released } = yield* acceptNext("released")
  const token = yield* feed.now
  yield* sql`UPDATE ledger_home SET system_identifier = system_identifier - 1`
  assert.strictEqual((yield* Effect.flip(feed.sinceInLedger(token, 10)))._tag, "StoreUnavailable")
  assert.deepStrictEqual(yield* queue.prepare, { moved: true })
  assert.strictEqual((yield* Effect.flip(feed.sinceInLedger(token, 10)))._tag, "ChangeTokenExpired")
  assert.lengthOf(yield* queue.takeHeld(provider, 10, readTerms), 2)
  yield* queue.recordHeld(held.id, 1, { state: "succeeded" }, recording())
  assert.strictEqual((yield* Effect.flip(queue.release(released.id)))._tag, "StillHeld")
  assert.strictEqual(yield* queue.releaseAll, 1)
  yield* ledger.review(released.id, true)
  yield* ledger.cancel(released.id, null)
  yield* queue.report(released.id, late(null))
  const before = yield* feed.now
  assert.isAtLeast((yield* queue.holdAll).held, 0)
  assert.strictEqual((yield* Effect.flip(feed.sinceInLedger(before, 10)))._tag, "ChangeTokenExpired")
  for (const settled of [id, held.id, released.id]) {
    assert.isEmpty(yield* sql`SELECT 1 FROM operation_payloads WHERE operation_id = ${settled}`)
  }
})

describe("The generated roles", () => {
  it.live("of writer and reader have the privileges for their work", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith()
      const { id, token } = yield* Effect.gen(function*() {
        const grants = yield* Grants
        const ledger = yield* OperationLedger
        const { access_token, grant } = yield* grants.issue(request)
        const identity = { grant_id: grant.grant_id, client_id: grant.client_id, subject: grant.subject }
        const payment = { type: "payment", key: IdempotencyKey.make("k"), payload: { amount: 1 } }
        const { operation } = yield* ledger.accept(identity, payment)
        yield* ledger.accept(identity, payment)
        yield* ledger.transition(operation.id, 1, { state: "submitting" }, { by: "test" })
        yield* ledger.history(operation.id)
        yield* submit(identity)
        yield* grants.register(registration)
        yield* grants.register({ ...registration, scopes: [] })
        yield* grants.register({ ...registration, grant: ExternalId.make("shown"), learned_from: "token" })
        for (let times = 0; times < 2; times++) {
          yield* grants.revokeExternal(registration)
          yield* grants.revokeSubject(registration)
          yield* grants.revokeClient(registration)
          yield* grants.revokeClient({ client_id: registration.client_id })
        }
        const { grant: other } = yield* grants.issue(request)
        assert.isNotNull((yield* grants.revoke(other.grant_id)).revoked_at)
        yield* grants.setClientActive(grant.client_id, true)
        yield* grants.setProviderConnected(grant.provider_connection_id, true)
        assert.deepStrictEqual(yield* GrantBlockers.use((blockers) => blockers.list(Duration.zero)), [])
        return { id: operation.id, token: access_token, grant }
      }).pipe(
        Effect.provide(
          Layer.mergeAll(
            Grants.layer,
            GrantBlockers.layer,
            OperationFeed.layer,
            OperationLedger.layer,
            SubmissionQueue.layer
          ).pipe(Layer.provideMerge(as("writer")))
        )
      )

      yield* Effect.gen(function*() {
        yield* (yield* Readiness).check
        const identity = yield* (yield* GrantVerifier).verify(bearer(token))
        const store = yield* OperationStore
        assert.strictEqual((yield* store.find(identity, id)).state, "indeterminate")
        for (
          const filter of [{}, { states: ["indeterminate"] as const, type: "payment" }, {
            key: IdempotencyKey.make("k")
          }]
        ) {
          const { operations } = yield* store.list(identity, { ...everything, ...filter })
          assert.include(operations.map((operation) => operation.id), id)
        }
        const feed = yield* OperationFeed
        const changes = yield* feed.since(identity, { states: [], type: null, page_size: 100, after: null })
        assert.lengthOf(changes.operations, 6)
        const query = { states: ["indeterminate"], type: "payment", page_size: 1, after: null } as const
        assert.strictEqual((yield* feed.since(identity, query)).operations.length, 1)
        assert.lengthOf((yield* feed.sinceInLedger(null, 100)).changes, 6)
        assert.lengthOf((yield* feed.sinceInLedger(yield* feed.now, 100)).changes, 0)
      }).pipe(
        Effect.provide(
          Layer.mergeAll(Readiness.layer, GrantVerifier.layer, OperationFeed.layer, OperationStore.layer).pipe(
            Layer.provide(as("reader", { startupParameters: { default_transaction_read_only: "on" } }))
          )
        )
      )
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("of the writer can act as an operator and search, but neither change a record of actions nor date one", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith()
      yield* Effect.gen(function*() {
        const actions = yield* OperatorActions
        const search = yield* OperationSearch
        const { grant } = yield* Grants.use((grants) => grants.issue(request))
        const { operation } = yield* OperationLedger.use((ledger) =>
          ledger.accept(grant, { type: "payment", key: IdempotencyKey.make("k"), payload: 1 })
        )
        const operator = { name: "ada", via: "command", reason: null } as const
        yield* actions.perform("hold", operation.id, operator, operation.revision)
        assert.deepStrictEqual(yield* actions.holdAll(operator), { held: 1, indeterminate: 0 })
        assert.strictEqual(
          (yield* Effect.flip(actions.perform("cancel", operation.id, operator)))._tag,
          "IllegalTransition"
        )
        assert.deepStrictEqual(yield* actions.releaseAll(operator), { released: 0, held_by_operators: 1 })
        const { operations } = yield* search.list({ order: "newest", limit: 10 })
        assert.deepStrictEqual(yield* search.find("k"), operations)
        assert.deepStrictEqual((yield* search.detail(operation.id)).actions.map(({ action }) => action), [
          "hold",
          "hold_all",
          "cancel",
          "release_all"
        ])
        yield* denied("UPDATE operator_actions SET operator = 'other'")
        yield* denied("DELETE FROM operator_actions")
        yield* denied("TRUNCATE operator_actions")
        yield* denied(`INSERT INTO operator_actions (at, operator, via, action, affected, result)
          VALUES ('2020-01-01', 'other', 'console', 'hold_all', 1, 'done')`)
      }).pipe(
        Effect.provide(
          Layer.mergeAll(Grants.layer, OperationLedger.layer, OperationSearch.layer, OperatorActions.layer).pipe(
            Layer.provideMerge(as("writer"))
          )
        )
      )
      for (const role of ["reader", "provisioner"] as const) {
        yield* Effect.provide(
          Effect.forEach([
            "SELECT operator FROM operator_actions",
            "INSERT INTO operator_actions (operator, via, action, affected, result) VALUES ('a', 'console', 'hold_all', 1, 'done')"
          ], denied),
          as(role)
        )
      }
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("of a reader that checks DPoP proofs can store and delete them", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith({ proofs: true })
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const proof = { jkt: "key", jti: "proof", expires_at: DateTime.makeUnsafe(0) }
        const isFirst = ProofReplay.use((replay) => replay.remember(proof))
        assert.isTrue(yield* isFirst)
        assert.isFalse(yield* isFirst)
        yield* TestClock.adjust("36 seconds")
        while ((yield* sql`SELECT digest FROM dpop_proofs`).length > 0);
      }).pipe(
        Effect.provide(Layer.provideMerge(ProofReplay.layer, as("reader"))),
        Effect.provide(TestClock.layer())
      )
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("of the provisioner can register grants from tokens and see revocations, and cannot revoke", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith()
      const shown = { ...registration, learned_from: "token" } as const
      const revoked = { ...shown, grant: ExternalId.make("revoked") }
      yield* Effect.provide(
        Grants.use((grants) => grants.revokeExternal(revoked)),
        Layer.provide(Grants.layer, as("writer"))
      )
      yield* Effect.gen(function*() {
        const grants = yield* Grants
        const grant = yield* grants.register(shown)
        assert.isNull(grant.revoked_at)
        const later = DateTime.makeUnsafe("2100-01-02T00:00:00Z")
        const scopes = [operationsRead, Scope.make("more")]
        assert.deepStrictEqual(
          yield* grants.register({ ...shown, scopes, expires_at: later }),
          { ...grant, scopes, expires_at: later }
        )
        assert.isNotNull((yield* grants.register(revoked)).revoked_at)
        yield* denied("SELECT register_grant('i', 'g', 'c', 's', 'o', 'p', '{}', now(), now(), gen_random_uuid())")
        yield* denied("SELECT revoke_grants('their-client', NULL, NULL, NULL, false)")
      }).pipe(Effect.provide(Layer.provideMerge(Grants.layer, as("provisioner"))))
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.effect("may send any NOTIFY: a forged one makes a worker poll at most once", () =>
    Effect.gen(function*() {
      const { as } = yield* rolesWith()
      const channel = "financial_agents_gateway_accepted"
      const other = ProviderName.make("another-bank")
      const claimed: Array<ProviderName> = []
      const listener = yield* Layer.build(Layer.fresh(PgAcceptanceSignal).pipe(Layer.provide(as("writer"))))
      const world = yield* makeWorld({
        signal: yield* Effect.provideContext(AcceptanceSignal, listener),
        providers: [other],
        queue: (queue) => ({
          claim: (provider, ...args) => {
            claimed.push(provider)
            return queue.claim(provider, ...args)
          }
        })
      })
      yield* world.start(SubmissionWorker.layer)
      yield* TestClock.adjust("1 milli")
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const listening = sql`SELECT 1 FROM pg_stat_activity WHERE usename = session_user AND query LIKE 'LISTEN%'`
        while ((yield* listening).length === 0);
      }).pipe(Effect.provide(as("writer")))
      claimed.length = 0
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const forge = (payload: string) => sql`SELECT pg_notify(${channel}, ${payload})`
        for (let n = 0; n < 25; n++) yield* forge("bank")
        for (const payload of ["", "no name", "unknown-bank", "x".repeat(7999), "bank' OR true"]) yield* forge(payload)
        yield* sql`NOTIFY another_channel, 'bank'`
        yield* forge(other)
        // Notifications arrive in order: the others have arrived when this one does.
        while (!claimed.includes(other)) yield* sql`SELECT 1`
      }).pipe(Effect.provide(as("reader")))
      assert.isAtMost(claimed.length, 26)
      assert.sameMembers([...new Set(claimed)], [ProviderName.make("bank"), other])
      assert.deepStrictEqual(world.attempts, [])
    }).pipe(Effect.scoped, Effect.provide(Platform)))

  it.live("of the owner can migrate without being a superuser", () =>
    Effect.gen(function*() {
      const { applied } = yield* rolesWith()
      assert.isAbove(applied.length, 2)
    }).pipe(Effect.scoped, Effect.provide(Platform)))
})
