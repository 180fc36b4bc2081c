/**
 * Limits hold in PostgreSQL for many callers at once, at any time and across restarts. The tests compare with the ledger in memory.
 */
import { assert, layer } from "@effect/vitest"
import { BigDecimal, Cause, DateTime, Deferred, Effect, Exit, Fiber, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { type AuthorizationDetails, decodeAuthorizationDetails } from "../../../../src/domain/AuthorizationDetails.ts"
import type { Operation, OperationState } from "../../../../src/domain/Operation.ts"
import { MemoryLedger } from "../../../../src/services/memory/MemoryLedger.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { windowOf } from "../../../../src/services/rules/limits.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { answerAlike } from "../../../fixtures/ledger/BothLedgers.ts"
import { drive, issue, pathTo, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { answerOf, type Asked, details, eur, narrow, request } from "../../../fixtures/ledger/LimitedPayments.ts"
import { Queue } from "../../../fixtures/ledger/QueueServices.ts"

const asked: fc.Arbitrary<readonly [string, Asked]> = fc.tuple(
  fc.integer({ min: 0, max: 12 }).map(String),
  fc.record({
    type: fc.constantFrom("transfer", "transfer", "refund", "trade"),
    amount: fc.constantFrom("0", "0.01", "10", "35.5", "60", "60.01", "100"),
    currency: fc.constantFrom("EUR", "EUR", "EUR", "JPY"),
    payee: fc.constantFrom("A", "A", "B", "C")
  })
).map(([key, asked]) => [key, asked.currency === "JPY" ? { ...asked, amount: "40" } : asked])

const anyStep = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ batch: fc.array(asked, { minLength: 1, maxLength: 6 }), narrowed: fc.boolean() })
  },
  {
    weight: 3,
    arbitrary: fc.record({ ends: fc.nat(20), as: fc.constantFrom("failed", "cancelled", "succeeded", "indeterminate") })
  },
  {
    weight: 2,
    arbitrary: fc.record({ contradicts: fc.nat(20), proves: fc.constantFrom("submitted", "succeeded", "failed") })
  },
  { weight: 1, arbitrary: fc.record({ hours: fc.constantFrom(5, 24, 48, 168) }) }
)

/** A run in one ledger. */
const begin = Effect.gen(function*() {
  const { identity } = yield* issue({ authorization_details: details })
  /** Null: it runs in PostgreSQL. */
  const memory = Option.getOrNull(yield* Effect.serviceOption(MemoryLedger))
  return { identity, memory, operations: new Array<Operation>() }
})
type Run = Effect.Success<typeof begin>

/** Makes all operations older. */
const age = Effect.fnUntraced(function*(memory: Run["memory"], hours: number) {
  const sql = yield* SqlClient.SqlClient
  if (memory === null) {
    return yield* sql.withTransaction(Effect.gen(function*() {
      yield* sql`ALTER TABLE operations DISABLE TRIGGER USER`.unprepared
      yield* sql`UPDATE operations SET created_at = created_at - make_interval(hours => ${hours})`
      yield* sql`ALTER TABLE operations ENABLE TRIGGER USER`.unprepared
    }))
  }
  for (const [id, record] of memory.operations) {
    const { reservation } = record
    if (reservation === null) continue
    const at = DateTime.subtract(reservation.at, { hours })
    memory.operations.set(id, { ...record, reservation: { ...reservation, at } })
  }
})

const perform = Effect.fnUntraced(
  function*(step: typeof anyStep extends fc.Arbitrary<infer S> ? S : never, { identity, memory, operations }: Run) {
    if ("hours" in step) return yield* age(memory, step.hours)
    if ("contradicts" in step) {
      const operation = operations[step.contradicts % Math.max(operations.length, 1)]
      if (operation === undefined) return null
      const proof = { state: step.proves as "failed", reference: null, evidence: { said: "so" } }
      return (yield* Effect.flatMap(Queue, ({ contradict }) => contradict(operation.id, proof)))?.state ?? null
    }
    if ("ends" in step) {
      const operation = operations[step.ends % Math.max(operations.length, 1)]
      if (operation === undefined) return null
      return Exit.isSuccess(yield* Effect.exit(drive(operation, pathTo[step.as as OperationState])))
    }
    const narrowed = step.narrowed ? { ...identity, authorization_details: narrow } : identity
    const requests = step.batch.map(([key, asked]) => request(key, asked))
    const results = yield* OperationLedger.use((ledger) => ledger.acceptAll(narrowed, requests))
    for (const result of results) {
      if (Exit.isSuccess(result) && result.value.created) operations.push(result.value.operation)
    }
    return results.map(answerOf)
  }
)

layer(PostgresLedger, { excludeTestServices: true })("limits in PostgreSQL", (it) => {
  it.effect(
    "answer as in memory, for any requests, outcomes, times and batches, and no budget is exceeded",
    () =>
      answerAlike(anyStep, { maxLength: 12, numRuns: rounds(25, 500) }, begin, (step, run) =>
        Effect.gen(function*() {
          const sql = yield* SqlClient.SqlClient
          const { identity, memory } = run
          const answer: unknown = yield* perform(step, run)
          const limits = yield* OperationStore.use((store) =>
            store.limits({ ...identity, authorization_details: narrow })
          )
          for (const { limit, remaining } of limits) {
            assert.isFalse(BigDecimal.isNegative(BigDecimal.fromStringUnsafe(remaining)), limit.amount)
          }
          const [sum] = memory !== null ? [] : yield* sql<{ readonly fits: boolean }>`
            SELECT coalesce(sum(limit_amount), 0) <= 250 AS fits FROM operations
            WHERE limit_currency = 'EUR' AND state NOT IN ('failed', 'cancelled') AND grant_id = ${identity.grant_id}`
          assert.notStrictEqual(sum?.fits, false)
          return [answer, limits]
        })),
    240_000
  )

  it.effect(
    "have the same windows in the database and in memory, also where clocks change at midnight",
    () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const budgets = (["day", "week", "month"] as const).flatMap((per) =>
          ["UTC", "Europe/Berlin", "America/Havana", "America/Santiago", "Asia/Beirut", "Pacific/Apia"].map((
            time_zone
          ) => eur("1", { per, time_zone })).concat(eur("1", { per, rolling: true }))
        )
        const hours = Array.from(
          { length: rounds(24 * 40, 24 * 366) },
          (_, n) => Date.UTC(2024, 9, 1) + n * 3_600_000 + n % 3
        )
        for (const budget of budgets) {
          const rows = yield* sql<{ readonly since: number; readonly until: number }>`
          SELECT (extract(epoch FROM limit_since(b.budget, a.at)) * 1000)::float8 AS since,
            (extract(epoch FROM coalesce(limit_resets_at(b.budget, a.at), 'infinity')) * 1000)::float8 AS until
          FROM (SELECT ${JSON.stringify(budget)}::jsonb) AS b (budget)
          CROSS JOIN (SELECT to_timestamp(h / 1000) FROM unnest(${hours}::float8[]) AS h) AS a (at)
          ORDER BY a.at`
          for (const [n, at] of hours.entries()) {
            const window = windowOf(budget, DateTime.makeUnsafe(at))
            assert.deepStrictEqual(rows[n], window, `${JSON.stringify(budget)} ${new Date(at).toISOString()}`)
            assert.isTrue(window.since <= at && at < window.until)
          }
        }
      }),
    240_000
  )

  it.effect("take only time zones that the database knows", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const takes = (time_zone: string) =>
        Effect.map(
          Effect.exit(
            decodeAuthorizationDetails([
              { type: "financial_operations", budgets: [eur("1.00", { per: "day", time_zone })] }
            ])
          ),
          Exit.isSuccess
        )
      // PostgreSQL reads the first ones as its settings say, and the others as zones without daylight saving or not at all.
      for (
        const name of ["IST", "BST", "CET", "PST", "MIT", "US/Pacific-New", "Etc/GMT+5", "+05:00", "Europe/Nowhere"]
      ) {
        assert.isFalse(yield* takes(name), name)
      }
      const zones = yield* Effect.filter(["UTC", ...Intl.supportedValuesOf("timeZone")], takes)
      assert.isAbove(zones.length, 300)
      yield* sql`SELECT now() AT TIME ZONE zone FROM unnest(${zones}::text[]) AS z (zone)`
    }))

  it.effect("hold for a hundred callers at once, and a budget is used up", () =>
    Effect.gen(function*() {
      const { acceptAll } = yield* OperationLedger
      const sql = yield* SqlClient.SqlClient
      const { identity } = yield* issue({
        authorization_details: [{ type: "financial_operations", budgets: [eur("40.00", { per: "day" })] }]
      })
      const call = (n: number) =>
        acceptAll(identity, [request(`call-${n}`, { amount: "1.00" })]).pipe(
          // A caller that met no free lock for a second repeats, as the 503 says.
          Effect.retry({ times: 20 }),
          Effect.map(([result]) => answerOf(result!))
        )
      const answers = yield* Effect.forEach(Array.from({ length: 100 }, (_, n) => n), call, { concurrency: 100 })
      assert.lengthOf(answers.filter((answer) => answer === "created"), 40)
      assert.lengthOf(answers.filter((answer) => Array.isArray(answer) && answer[0] === "LimitExceeded"), 60)
      const rows = yield* sql`SELECT FROM operations WHERE grant_id = ${identity.grant_id}`
      assert.lengthOf(rows, 40)
    }), 120_000)

  it.effect.each([false, true])(
    "answer by no sums that another acceptance may be changing, nor wait for it: not the first, %s",
    (later) =>
      Effect.gen(function*() {
        const { acceptAll } = yield* OperationLedger
        const sql = yield* SqlClient.SqlClient
        const { identity } = yield* issue({
          authorization_details: [{ type: "financial_operations", budgets: [eur("10.00", { per: "day" })] }]
        })
        if (later) yield* acceptAll(identity, [request("earlier", { amount: "1" })])
        const call = Effect.exit(acceptAll(identity, [request("above", { amount: "11" })]))
        const locked = yield* Deferred.make<void>()
        const ended = yield* Deferred.make<void>()
        // An acceptance in a transaction that goes on.
        const holder = yield* Effect.forkChild(sql.withTransaction(
          acceptAll(identity, [request("first", { amount: "6" })]).pipe(
            Effect.andThen(Deferred.succeed(locked, undefined)),
            Effect.andThen(Deferred.await(ended))
          )
        ))
        yield* Deferred.await(locked)
        const during = yield* call
        yield* Deferred.succeed(ended, undefined)
        yield* Fiber.join(holder)
        assert.isTrue(Exit.isFailure(during))
        const after = yield* call
        assert(Exit.isSuccess(after))
        assert.include(answerOf(after.value[0]!) as Array<unknown>, "LimitExceeded")
      })
  )

  it.effect("hold for every other program: no operation without its amount, or above a limit", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const ledger = yield* OperationLedger
      const limits: AuthorizationDetails = [
        {
          type: "financial_operations",
          operation_types: ["transfer"],
          max_amount: [{ currency: "EUR", amount: "7.00" }],
          budgets: [eur("10.00", { per: "day" })]
        }
      ]
      const { grant, identity } = yield* issue({ authorization_details: limits })
      const remaining = OperationStore.use((store) => store.limits(identity)).pipe(
        Effect.map((all) => all.map(({ remaining }) => remaining))
      )
      /** An acceptance of another program, with these amounts. */
      const insert = (
        amounts: ReadonlyArray<number | "Infinity" | "NaN" | null>,
        type = "transfer",
        currency: string | null = "EUR"
      ) =>
        sql`
        INSERT INTO operations (client_id, resource_owner, subject, grant_id, provider_connection_id, state, revision, id, type,
          idempotency_key, request_digest, limit_amount, limit_currency)
        SELECT ${grant.client_id}, ${grant.resource_owner}, ${grant.subject}, ${grant.grant_id}::uuid, ${grant.provider_connection_id}::uuid,
          'accepted', 1, overlay(gen_random_uuid()::text PLACING '7' FROM 15)::uuid, ${type}, gen_random_uuid()::text, sha256('x'), a::numeric, ${currency}
        FROM unnest(${amounts.map(String)}::text[]) AS a`
      const bare = sql`
        INSERT INTO operations (client_id, resource_owner, subject, grant_id, provider_connection_id, state, revision, id, type,
          idempotency_key, request_digest)
        VALUES (${grant.client_id}, ${grant.resource_owner}, ${grant.subject}, ${grant.grant_id}, ${grant.provider_connection_id},
          'accepted', 1, '019aa4f0-5c00-7b1e-8d2f-000000000001', 'transfer', 'bare', sha256('x'))`
      const { operation } = yield* ledger.accept(identity, request("first", { amount: "3" }))
      const refused = [
        bare,
        insert([7.01]),
        // Each of them fits alone.
        insert([4, 4]),
        insert([1], "trade"),
        insert([1], "transfer", "USD"),
        insert([1], "transfer", "eur"),
        insert([1], "transfer", null),
        insert(["Infinity"]),
        insert(["NaN"]),
        insert([-1]),
        // Its snapshot is older than the lock, so that it could miss a reservation.
        sql.withTransaction(Effect.andThen(sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`, insert([1]))),
        sql`UPDATE operations SET limit_amount = 0 WHERE id = ${operation.id}`,
        sql`UPDATE operations SET limit_currency = 'USD' WHERE id = ${operation.id}`,
        sql`UPDATE grants SET authorization_details = NULL WHERE id = ${grant.grant_id}`
      ]
      for (const [n, statement] of refused.entries()) {
        const exit: Exit.Exit<unknown, unknown> = yield* Effect.exit(statement)
        assert.isTrue(Exit.isFailure(exit), `statement ${n}`)
        assert.match(
          Cause.pretty((exit as Exit.Failure<unknown, unknown>).cause),
          /limit|keeps what it reserves|READ COMMITTED/,
          `statement ${n}`
        )
      }
      assert.deepStrictEqual(yield* remaining, ["7.00", "7.00"])
      yield* insert([3, 4])
      assert.deepStrictEqual(yield* remaining, ["7.00", "0.00"])
      yield* ledger.cancel(operation.id, null)
      assert.deepStrictEqual(yield* remaining, ["7.00", "3.00"])
    }))
})
