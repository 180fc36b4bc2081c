/**
 * /healthz always answers ok, and /readyz answers ok exactly when the store is ready. `services/Readiness` holds when it is, and
 * `LostDatabase` reads both over a real outage.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { NotReady } from "../../../src/services/Readiness.ts"
import { withServices } from "../../fixtures/http/HttpFixed.ts"
import { assertProblemOf } from "../../fixtures/http/HttpProblem.ts"

describe("GET /healthz", () => {
  it.live("is 200 with status ok and nothing else, in any state of the database", () =>
    withServices({
      check: Effect.fail(new NotReady({ reason: "no_answer" })),
      find: () => Effect.die("broken"),
      verify: () => Effect.never
    }, ({ send }) =>
      Effect.gen(function*() {
        const answer = yield* send("/healthz")
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(answer.text, "{\"status\":\"ok\"}")
        assert.strictEqual(answer.headers["content-type"], "application/json")
      })))
})

describe("GET /readyz", () => {
  it.live.each(["no_answer", "migrations_missing"] as const)(
    "is 503 not_ready otherwise, with the reason only in the log: %s",
    (reason) =>
      withServices(
        { check: Effect.fail(new NotReady({ reason })) },
        ({ send }, { linesOf }) =>
          Effect.gen(function*() {
            const answer = yield* send("/readyz", { headers: { "x-request-id": "not-ready" } })
            assertProblemOf(answer, "not_ready")
            assert.strictEqual(answer.headers["retry-after"], "1")
            assert.notInclude(answer.text, reason)
            assert.deepStrictEqual(linesOf("not-ready").map(({ annotations }) => annotations["cause"]), [reason])
          })
      )
  )
})
