/**
 * While the database does not answer, every read is 503 within two seconds, and other requests are served. The tests
 * lock tables of PostgreSQL.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Gateway, postgresGateway } from "../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"
import { accept, issue } from "../../fixtures/http/HttpScene.ts"

const locking = <A, E, R>(table: string, effect: Effect.Effect<A, E, R>) =>
  SqlClient.SqlClient.use((sql) =>
    sql.withTransaction(Effect.andThen(sql.unsafe(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`).unprepared, effect))
  )

layer(postgresGateway({ lifecycle: { deadline: 1800 } }), { excludeTestServices: true })(
  "A database that is stuck",
  (it) => {
    it.effect("is 503 for every read, while other requests are served; then reads work again", () =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const holder = yield* issue()
        const { id } = yield* accept(holder)
        const { token } = holder
        const targets = [`/v1/operations/${id}`, "/v1/operations", "/v1/operations?state=accepted"]
        yield* locking(
          "operations",
          Effect.gen(function*() {
            const reads = Effect.forEach(
              Array.from({ length: 30 }, (_, n) => targets[n % targets.length]!),
              (target) => send(target, { token }),
              { concurrency: "unbounded" }
            )
            const [answers, health] = yield* Effect.all([reads, send("/healthz")], { concurrency: "unbounded" })
            for (const answer of answers) assertProblemOf(answer, "service_unavailable")
            assert.strictEqual(health.status, 200)
          })
        )
        for (const target of targets) {
          const answer = yield* Effect.repeat(send(target, { token }), { until: ({ status }) => status === 200 })
          assert.strictEqual(answer.status, 200)
        }
      }))

    it.effect("is 503, and never 401, when the lookup of the credential does not answer", () =>
      Effect.gen(function*() {
        const { send } = yield* Gateway
        const { token } = yield* issue()
        const answers = yield* locking(
          "access_tokens",
          Effect.all([
            send("/v1/operations", { token }),
            send("/v1/operations", { token: "malformed" })
          ], { concurrency: 2 })
        )
        assertProblemOf(answers[0], "service_unavailable")
        assertProblemOf(answers[1], "invalid_token")
        const again = yield* Effect.repeat(send("/v1/operations", { token }), { until: ({ status }) => status !== 503 })
        assert.strictEqual(again.status, 200)
      }))
  }
)
