/**
 * A worker never sends a stored payload that differs from the accepted one, and encryption cannot be removed. The tests
 * replace payloads in both ledgers and run the real worker against a sandbox.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { DateTime, Duration, Effect, Redacted, type Schema } from "effect"
import { Hex } from "effect/encoding"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { canonicalPayload, requestDigest } from "../../../../src/domain/Idempotency.ts"
import { OperationId } from "../../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import type { AesGcmOptions, SealedPayload } from "../../../../src/services/PayloadCipher.ts"
import { makeOpenPayload } from "../../../../src/services/rules/openPayload.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { forAll } from "../../../fixtures/forAll.ts"
import { Backstage, having as havingKeys, type Keys } from "../../../fixtures/ledger/Backstage.ts"
import { accept, conformance, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { claimIds, claimTerms, inspect, isAbout, issueAtNewProvider, pass } from "../../../fixtures/ledger/Queue.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"
import { engineAt, submissionScene } from "./SubmissionScene.ts"

const keys: Keys = [{ id: "2026-01", key: Redacted.make(new Uint8Array(32).fill(7)) }]

/** Runs the effect as a process that has the keys. */
const having = <A, E, R>(effect: Effect.Effect<A, E, R>, options?: AesGcmOptions) => havingKeys(keys, effect, options)

const plain = (payload: Schema.Json | string): SealedPayload => ({
  key_id: null,
  payload: new TextEncoder().encode(typeof payload === "string" ? payload : JSON.stringify(payload))
})

const replace = (id: OperationId, payload: SealedPayload) =>
  Backstage.use((backstage) => backstage.replacePayload(id, payload))

const rent = { amount: "10.00", to: "landlord" }
const loot = { amount: "10000.00", to: "mallory" }

/** The payload of the only claim, or the name of the error. */
const opened = (provider: string) =>
  Effect.gen(function*() {
    const queue = yield* Queue
    const claims = yield* queue.claim(provider as never, 10, claimTerms)
    assert.lengthOf(claims, 1)
    return yield* Effect.match(claims[0]!.payload, {
      onFailure: ({ _tag }): unknown => _tag,
      onSuccess: (json) => json
    })
  })

conformance("a replaced payload", (it) => {
  it.effect("is not opened if it was encrypted for another request of the same operation, even with its key", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* having(accept(identity, { payload: rent }))
      const forged = yield* having(accept(identity, { payload: loot }))
      const { payload } = yield* inspect(forged.operation.id)
      yield* having(OperationLedger.use((ledger) => ledger.cancel(forged.operation.id, null)))
      yield* replace(operation.id, { key_id: payload!.key_id, payload: payload!.bytes })
      assert.strictEqual(
        yield* having(opened(grant.provider)),
        "PayloadUnreadable",
        "the ciphertext names its operation"
      )
    }))

  const others: ReadonlyArray<readonly [what: string, text: string]> = [
    ["plain text of another request", JSON.stringify(loot)],
    ["no JSON", "{"],
    ["nothing", ""],
    ["the same JSON with other whitespace", `{ "to": "landlord", "amount": "10.00" }`],
    [
      "the same with a duplicate member before it, which the parser ignores",
      `{"amount":"1","amount":"10.00","to":"landlord"}`
    ],
    ["a payload that also contains the type", `{"amount":"10.00","to":"landlord"},"type":"payment"`]
  ]
  for (const [what, text] of others) {
    it.effect(`is not opened when it is ${what}`, () =>
      Effect.gen(function*() {
        const { grant, identity } = yield* issueAtNewProvider()
        const { operation } = yield* accept(identity, { payload: rent })
        yield* replace(operation.id, plain(text))
        assert.strictEqual(yield* opened(grant.provider), "PayloadAltered")
      }))
  }
})

conformance("plain text", (it) => {
  for (const [what, text] of [["the accepted payload", rent], ["another payload", loot]] as const) {
    it.effect(`in plain text in place of a ciphertext is not opened, and the operation is put under review: ${what}`, () =>
      Effect.gen(function*() {
        const ledger = yield* OperationLedger
        const { grant, identity } = yield* issueAtNewProvider()
        const { operation: { id } } = yield* having(accept(identity, { payload: rent }))
        const { payload } = yield* inspect(id)
        yield* replace(id, plain(text))
        assert.deepStrictEqual(yield* having(claimIds(grant.provider)), [])
        isAbout((yield* inspect(id)).due_in, claimTerms.idle)
        assert.deepInclude(yield* ledger.show(id), { state: "accepted", under_review: false })
        yield* pass("2 hours")
        assert.deepStrictEqual(yield* having(claimIds(grant.provider)), [])
        assert.deepInclude(yield* ledger.show(id), { state: "accepted", under_review: true })
        // An operator restores the ciphertext.
        yield* replace(id, { key_id: payload!.key_id, payload: payload!.bytes })
        yield* pass("2 hours")
        assert.deepStrictEqual(yield* having(opened(grant.provider)), rent)
      }))
  }

  it.effect("in plain text is refused from the given instant on, to the millisecond", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const { created_at, id } = (yield* accept(identity, { payload: rent })).operation
      const claimedUntil = (plaintextUntil: DateTime.Utc) =>
        Effect.tap(having(claimIds(grant.provider), { plaintextUntil }), pass(claimTerms.idle))
      assert.deepStrictEqual(yield* claimedUntil(created_at), [])
      const aged = (yield* OperationLedger.use((ledger) => ledger.show(id))).created_at
      assert.deepStrictEqual(yield* claimedUntil(DateTime.add(aged, { milliseconds: 1 })), [id])
    }))

  it.effect("in plain text that the migration admits is still checked against the accepted request", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      const { operation } = yield* accept(identity, { payload: rent })
      yield* replace(operation.id, plain(loot))
      const plaintextUntil = DateTime.addDuration(yield* DateTime.now, Duration.hours(1))
      assert.strictEqual(yield* having(opened(grant.provider), { plaintextUntil }), "PayloadAltered")
    }))

  it.effect("delays no operation that can be sent", () =>
    Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      for (let n = 0; n < 5; n++) yield* accept(identity)
      const { operation } = yield* having(accept(identity))
      assert.deepStrictEqual(yield* having(claimIds(grant.provider, 2)), [operation.id])
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("a worker", (it) => {
  it.effect("sends no replaced payload, and reports the failure without the content that it found", () =>
    Effect.gen(function*() {
      const ledger = yield* OperationLedger
      const { identity, logs, sandbox, work } = yield* submissionScene
      const { operation: { id } } = yield* accept(identity, { payload: rent })
      yield* replace(id, plain(loot))
      yield* work
      assert.deepInclude(yield* ledger.show(id), {
        state: "failed",
        failure: {
          code: "payload_altered",
          message: "The stored request is not the one that was accepted, and was not sent."
        }
      })
      assert.deepStrictEqual(yield* sandbox.record, [])
      const error = logs.find((line) => line.includes("Payload refused"))!
      assert.deepInclude(JSON.parse(error), { level: "ERROR" })
      assert.include(error, id)
      assert.notInclude(logs.join("\n"), "mallory")
      assert.notInclude(JSON.stringify(yield* ledger.history(id)), "mallory")
    }))

  it.effect("sends no payload as another type than the accepted one", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const ledger = yield* OperationLedger
      const { identity, sandbox, work } = yield* submissionScene
      const { operation: { id } } = yield* accept(identity, { payload: rent })
      yield* sql`ALTER TABLE operations DISABLE TRIGGER operations_transition`
      yield* sql`UPDATE operations SET type = 'refund' WHERE id = ${id}`
      yield* sql`ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_transition`
      yield* work
      assert.nestedInclude(yield* ledger.show(id), { state: "failed", "failure.code": "payload_altered" })
      assert.deepStrictEqual(yield* sandbox.record, [])
    }))

  it.effect("with keys sends no plain text that a program with the writer's rights inserted, with any date", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { grant, sandbox } = yield* submissionScene
      const id = OperationId.make("019aa4f0-5c00-7b1e-8d2f-00000000cafe")
      const digest = yield* requestDigest({ type: "payment", payload: loot })
      yield* sql`
        INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
          idempotency_key, request_digest, state, revision, created_at, updated_at)
        SELECT ${id}, client_id, resource_owner, subject, id, provider_connection_id, 'payment', 'forged', ${digest},
          'accepted', 1, '2000-01-01', '2000-01-01'
        FROM grants WHERE id = ${grant.grant_id}`
      yield* sql`
        INSERT INTO operation_payloads (operation_id, client_id, payload)
        VALUES (${id}, ${grant.client_id}, ${Buffer.from(JSON.stringify(loot))})`
      const plaintextUntil = DateTime.subtractDuration(yield* DateTime.now, Duration.minutes(1))
      const { work } = yield* having(engineAt(grant.provider, sandbox.url), { plaintextUntil })
      yield* work
      assert.deepStrictEqual(yield* sandbox.record, [])
      assert.strictEqual((yield* OperationLedger.use((ledger) => ledger.show(id))).state, "accepted")
    }))
})

describe("A payload that was accepted", () => {
  it.effect("passes the check for any JSON", () => {
    const id = OperationId.make("019aa4f0-5c00-7b1e-8d2f-000000000001")
    const created_at = DateTime.makeUnsafe("2026-01-31T12:00:00Z") as DateTime.Utc
    const any = fc.oneof(
      fc.jsonValue({ maxDepth: 4 }),
      fc.dictionary(fc.constantFrom("__proto__", "constructor", "toJSON", "é", "\u{1f600}", ""), fc.jsonValue())
    )
    const check = (payload: Schema.Json) =>
      Effect.gen(function*() {
        const open = yield* makeOpenPayload
        const bytes = yield* canonicalPayload(payload)
        const digest = yield* requestDigest({ type: "payment", payload })
        const stored = { id, type: "payment", created_at, sealed: { key_id: null, payload: bytes } }
        const sent = yield* open({ ...stored, request_digest: Hex.encode(digest) })
        assert.strictEqual(JSON.stringify(sent), JSON.stringify(JSON.parse(new TextDecoder().decode(bytes))))
      }).pipe(
        // A payload without a canonical form is not accepted.
        Effect.catchTag("InvalidFinancialRequest", () => Effect.void),
        Effect.provide(Platform)
      )
    return forAll(any, rounds(150, 500), (payload) => check(payload as Schema.Json))
  })
})
