/**
 * Concurrent batches create one operation for each key, never wait for each other in a circle, and are recorded entirely or not at
 * all. The tests run several processes on PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Logger } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import type { Grant, GrantIdentity } from "../../../../src/domain/Grant.ts"
import { type FinancialRequest, IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { type Accepted, OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { boundStatement } from "../../../../src/services/sql/ledger/SqlAcceptances.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { forAll } from "../../../fixtures/forAll.ts"
import { issue, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { anotherProcess, inTime, openTransaction, terminate, untilWaiting } from "../../../fixtures/postgres/Pools.ts"

const request = (key: number, variant = 0): FinancialRequest => ({
  type: "payment",
  key: IdempotencyKey.make(`key-${key}`),
  payload: { key, variant }
})

type Answer = Exit.Exit<Accepted, { readonly _tag: string }>

/** Accepts a batch, or its requests one by one. */
const acceptAll = (grant: GrantIdentity, requests: ReadonlyArray<FinancialRequest>, isOneByOne: boolean) =>
  OperationLedger.use((ledger): Effect.Effect<ReadonlyArray<Answer>, { readonly _tag: string }> =>
    isOneByOne
      ? Effect.forEach(requests, (request) => Effect.exit(ledger.accept(grant, request)))
      : ledger.acceptAll(grant, requests)
  )

const count = (keys: ReadonlyArray<number>, grant: GrantIdentity) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly count: number }>`
      SELECT count(*)::int AS count FROM operations o
      JOIN operation_payloads p ON p.operation_id = o.id AND p.client_id = o.client_id
      JOIN operation_history h ON h.operation_id = o.id AND h.client_id = o.client_id
      WHERE o.subject = ${grant.subject} AND o.idempotency_key = ANY (${keys.map((key) => `key-${key}`)})`
    return row!.count
  })

const range = (length: number) => Array.from({ length }, (_, n) => n)

/**
 * The batches of one race: 2 to 8, each with its keys in its own order. One request in seven is another one of its key. The requests of
 * every third batch come one by one.
 */
const batches = fc.array(
  fc.array(fc.tuple(fc.nat(39), fc.nat(6)), { minLength: 20, maxLength: 80 }),
  { minLength: 2, maxLength: 8 }
)

/** The rules that the answers to all batches break, in words. */
const violationsOf = (answers: ReadonlyArray<readonly [FinancialRequest, Answer]>): ReadonlyArray<string> =>
  [...Map.groupBy(answers, ([{ key }]) => key)].flatMap(([key, answersToKey]) => {
    const accepted = answersToKey.flatMap(([{ payload }, result]) =>
      Exit.isSuccess(result) ? [{ ...result.value, payload: JSON.stringify(payload) }] : []
    )
    const creations = accepted.filter(({ created }) => created)
    if (creations.length !== 1) return [`${key}: ${creations.length} creations`]
    const [{ operation, payload }] = creations as [typeof creations[0] & object]
    return answersToKey.flatMap(([request, result]) => {
      const isSame = JSON.stringify(request.payload) === payload
      if (Exit.isFailure(result)) {
        return !isSame &&
            result.cause.reasons.some((reason) => reason._tag === "Fail" && reason.error._tag === "BindingConflict")
          ? []
          : [`${key}: ${String(result.cause)}`]
      }
      return isSame && result.value.operation.id === operation.id ? [] : [`${key}: got ${result.value.operation.id}`]
    })
  })

layer(PostgresLedger, { excludeTestServices: true })("concurrent batches of acceptances", (it) => {
  it.effect(
    "create one operation for each key and agree on it, with any keys and orders, and no deadlock fails one",
    () =>
      Effect.gen(function*() {
        const processes = yield* Effect.all(range(8).map(() => Layer.build(anotherProcess({ maxConnections: 1 }))))
        yield* forAll(batches, rounds(12, 30), (drawn) => {
          const requests = drawn.map((batch) => batch.map(([key, variant]) => request(key, variant === 3 ? 1 : 0)))
          const warnings: Array<unknown> = []
          return Effect.gen(function*() {
            const { identity } = yield* issue()
            const answers = yield* Effect.forEach(
              requests,
              (batch, n) => Effect.provideContext(acceptAll(identity, batch, n % 3 === 2), processes[n]!),
              { concurrency: "unbounded" }
            )
            const pairs = requests.flatMap((batch, n) =>
              batch.map((request, at) => [request, answers[n]![at]!] as const)
            )
            assert.deepStrictEqual(violationsOf(pairs), [])
            const keys = new Set(drawn.flat().map(([key]) => key))
            assert.strictEqual(yield* count([...keys], identity), keys.size)
            // Requests that were accepted alone, after a failed statement, could not meet in a circle.
            assert.deepStrictEqual(warnings, [])
          }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void warnings.push(message))])))
        })
      })
  )

  it.effect("whose connection the server terminates in the middle record nothing, and a repetition records all", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      const keys = range(30)
      const batch = keys.map((key) => request(key))
      yield* Effect.gen(function*() {
        const here = yield* OperationLedger
        yield* Effect.scoped(Effect.gen(function*() {
          const run = yield* openTransaction
          // The batch has inserted the keys before this one when it waits for the end of this transaction.
          yield* run(
            `INSERT INTO operations (id, client_id, resource_owner, subject, grant_id, provider_connection_id, type,
               idempotency_key, request_digest, state, revision)
             SELECT $2, client_id, resource_owner, subject, id, provider_connection_id, 'payment', 'key-5',
               decode(repeat('00', 32), 'hex'), 'accepted', 1
             FROM grants WHERE id = $1`,
            [identity.grant_id, "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f"]
          )
          const waiting = yield* Effect.forkChild(Effect.flip(here.acceptAll(identity, batch)))
          yield* untilWaiting(1)
          assert.strictEqual(yield* terminate("batches"), 1)
          assert.strictEqual((yield* inTime(Fiber.join(waiting)))._tag, "StoreUnavailable")
          assert.strictEqual(yield* count(keys, identity), 0)
        }))
        const results = yield* here.acceptAll(identity, batch)
        assert.isTrue(results.every((result) => Exit.isSuccess(result) && result.value.created))
        assert.strictEqual(yield* count(keys, identity), keys.length)
      }).pipe(Effect.provide(anotherProcess({ applicationName: "batches", maxConnections: 1 })))
    }))

  const changes: Readonly<Record<string, (grant: Grant) => Effect.Effect<unknown, unknown, Grants>>> = {
    GrantRevoked: ({ grant_id }) => Grants.use(({ revoke }) => revoke(grant_id)),
    ClientInactive: ({ client_id }) => Grants.use((grants) => grants.setClientActive(client_id, false)),
    ProviderDisconnected: ({ provider_connection_id }) =>
      Grants.use((grants) => grants.setProviderConnected(provider_connection_id, false))
  }

  for (const [refusal, change] of Object.entries(changes)) {
    it.effect(`that repeat a request yield nothing if the grant is refused before the read: ${refusal}`, () =>
      Effect.gen(function*() {
        const { grant, identity } = yield* issue()
        yield* OperationLedger.use((ledger) => ledger.accept(identity, request(1)))
        const sql = yield* SqlClient.SqlClient
        const changed = Effect.provide(Effect.orDie(change(grant)), yield* Effect.context<Grants>())
        const late = Object.assign(Object.create(sql) as SqlClient.SqlClient, {
          unsafe: (text: string, parameters?: ReadonlyArray<unknown>) => {
            const statement = sql.unsafe(text, parameters)
            return text === boundStatement ? Effect.andThen(changed, statement) : statement
          }
        })
        const refused = yield* Effect.flip(OperationLedger.use((ledger) => ledger.accept(identity, request(1)))).pipe(
          Effect.provide(Layer.fresh(OperationLedger.layer)),
          Effect.provideService(SqlClient.SqlClient, late)
        )
        assert.strictEqual(refused._tag, refusal)
      }))
  }
})
