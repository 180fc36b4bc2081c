/**
 * `GatewayApp` runs an application as one process: it migrates, serves, works and drains. The tests start processes and
 * send HTTP.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { ask, direct, failing, pay, rent, settled, startPayments } from "../../fixtures/examples/paymentsProcess.ts"
import { scrape } from "../../fixtures/metrics/Scrape.ts"
import { rolesWith } from "../../fixtures/postgres/Roles.ts"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, urlOf } from "../../fixtures/processes/CommandLine.ts"

const Bank = Sandbox.layer({
  mix: { succeeded_at_once: 1, succeeded_later: 0, failed_later: 0, rejected: 0, shortest_ms: 1, longest_ms: 2 }
})

const bank = Effect.map(Sandbox, ({ url }) => ({ BANK_URL: url, BANK_TOKEN: "sandbox" }))

describe("GatewayApp", () => {
  it.live("migrates an empty database, accepts and pays, serves one documentation, and counts all on ADMIN_PORT", () =>
    Effect.gen(function*() {
      const database = yield* createDatabase({ empty: true })
      const admin = yield* freePort
      const payments = yield* startPayments({
        DATABASE_URL: urlOf(database),
        ADMIN_PORT: String(admin),
        ...yield* bank
      })
      // The adapter of the provider cannot send it: nothing is recorded under the key.
      const refused = yield* pay(payments, "rent-of-may", { ...rent, currency: "USD" })
      assert.deepStrictEqual([refused.status, refused.body.code], [422, "invalid_request"])
      assert.deepStrictEqual(
        refused.body.fields.map(({ path }: { readonly path: string }) => path),
        ["body.currency"]
      )
      const { location } = yield* pay(payments, "rent-of-may")
      assert.strictEqual((yield* settled(location!, payments.token)).state, "succeeded")
      assert.strictEqual((yield* ask(`${payments.url}/readyz`)).status, 200)
      assert.strictEqual((yield* ask(`${payments.url}/nowhere`)).body.code, "route_not_found")
      const { body } = yield* ask(`${payments.url}/openapi.json`)
      assert.strictEqual(body.info.title, "Payments")
      assert.includeMembers(Object.keys(body.paths), ["/v1/payments", "/v1/operations"])
      const { total } = yield* Effect.promise(() => scrape(admin))
      assert.strictEqual(total("gateway_http_requests_total", { route: "/v1/payments", status: "202" }), 1)
      assert.strictEqual(total("gateway_sends_total", { outcome: "succeeded" }), 1)
      assert.strictEqual(total("gateway_operations", { state: "succeeded" }), 1)
    }).pipe(Effect.provide(Bank)))

  it.live("on SIGTERM finishes the running request, refuses others, and exits with 0", () =>
    Effect.gen(function*() {
      const environment = { DATABASE_URL: urlOf(yield* createDatabase()), ...yield* bank }
      const payments = yield* startPayments(environment, direct("test/system/node/slowPayments.ts"))
      const running = yield* Effect.forkChild(pay(payments, "rent-of-may"))
      yield* payments.prints(/a request waits/)
      const exit = yield* Effect.forkChild(payments.stop("SIGTERM"))
      const isDraining = Effect.map(ask(`${payments.url}/readyz`), ({ body, status }) =>
        status === 503 && body.code === "not_ready")
      yield* Effect.repeat(isDraining, {
        until: (draining) =>
          draining
      })
      const refused = yield* pay(payments, "another")
      assert.deepStrictEqual([refused.status, refused.body.code], [503, "service_unavailable"])
      process.kill(payments.pid, "SIGUSR2")
      const { body, status } = yield* Fiber.join(running)
      assert.deepStrictEqual([status, body.state], [202, "accepted"])
      assert.strictEqual(yield* Fiber.join(exit), 0)
    }).pipe(Effect.provide(Bank)))

  it.live("connects as the documented roles, each with a URL of its own", () =>
    Effect.gen(function*() {
      const { urlAs } = yield* rolesWith()
      const environment = { DATABASE_URL: urlAs("reader"), OWNER_DATABASE_URL: urlAs("owner"), ...yield* bank }
      const payments = yield* startPayments({ ...environment, WRITER_DATABASE_URL: urlAs("writer") })
      assert.notInclude(payments.printed(), "fingw_")
      const { location } = yield* pay(payments, "rent-of-may")
      assert.strictEqual((yield* settled(location!, payments.token)).state, "succeeded")
      assert.strictEqual(yield* payments.stop("SIGTERM"), 0)

      // The reader may not migrate.
      const reader = yield* failing({ ...environment, OWNER_DATABASE_URL: urlAs("reader") })
      assert.match(reader.stderr, /^error: the role of OWNER_DATABASE_URL may not apply migrations: /m)
    }).pipe(Effect.provide([Bank, Platform])))

  it.live("without its database prints one line on standard error, and exits with 1", () =>
    Effect.gen(function*() {
      const unreachable = "postgres://gateway:secret@127.0.0.1:1/gateway"
      const { code, stderr, stdout } = yield* failing({
        DATABASE_URL: unreachable,
        BANK_URL: "http://127.0.0.1:1",
        BANK_TOKEN: "t"
      })
      assert.deepStrictEqual([code, stdout], [1, ""])
      assert.match(stderr, /^error: database error: [^\n]+\n$/)
      assert.notInclude(stderr, "secret")
    }))

  it.live("without BANK_URL the payments example does not start beside a database that has real operations", () =>
    Effect.gen(function*() {
      const { code, stderr, stdout } = yield* failing({ DATABASE_URL: urlOf(yield* createDatabase()) })
      assert.deepStrictEqual([code, stdout], [1, ""])
      assert.match(stderr, /^error: set BANK_URL beside DATABASE_URL: [^\n]+$/m)
      assert.notInclude(stderr, "Listening")
    }).pipe(Effect.provide(Platform)))

  it.live("with an invalid setting prints one line that names it", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* failing({ BANK_URL: "http://127.0.0.1:1", BANK_TOKEN: "t", LOG_LEVEL: "loud" })
      assert.strictEqual(code, 1)
      assert.match(stderr, /^error: LOG_LEVEL must be [^\n]+\n$/)
    }))
})
