/**
 * The payments example pays once, even if it is killed between acceptance and response. The tests run it as a process
 * against a bank on loopback.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { webhooksPath } from "../../../examples/payments/BankWebhooks.ts"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { ask, byNpm, direct, pay, settled, startPayments } from "../../fixtures/examples/paymentsProcess.ts"
import { scrape } from "../../fixtures/metrics/Scrape.ts"
import { createDatabase, layerFor } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { killAll, leftOf, treeOf } from "../../fixtures/processes/Processes.ts"
import { temporaryDirectory } from "../../fixtures/TemporaryDirectory.ts"

/** A bank that executes every payment after a moment. */
const Bank = Sandbox.layer({
  mix: { succeeded_at_once: 0, succeeded_later: 1, failed_later: 0, rejected: 0, shortest_ms: 50, longest_ms: 100 }
})

/** The data directory and the bank of the example. */
const world = Effect.gen(function*() {
  const database = yield* createDatabase()
  const bank = yield* Sandbox
  return { database, bank, environment: { DATABASE_URL: urlOf(database), BANK_URL: bank.url } }
})

const recorded = (database: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql<{ readonly id: string; readonly state: string }>`
    SELECT id, state FROM operations`).pipe(Effect.provide(Layer.fresh(layerFor(database))))

describe("The payments example", () => {
  it.live("finds the same operation again after a kill between acceptance and response, and pays once", () =>
    Effect.gen(function*() {
      const { bank, database, environment } = yield* world
      const doomed = yield* startPayments(environment, direct("test/long/examples/paymentsKilledAfterAccept.ts"))
      assert.strictEqual((yield* Effect.exit(pay(doomed, "rent-of-may")))._tag, "Failure")
      assert.strictEqual(yield* doomed.stop("SIGTERM"), "SIGKILL")
      const [accepted, ...others] = yield* recorded(database)
      assert.deepStrictEqual([accepted?.state, others], ["accepted", []])

      const { url } = yield* startPayments(environment)
      // The token survived the process, too.
      const { token } = doomed
      const repeated = yield* pay({ token, url }, "rent-of-may")
      assert.deepStrictEqual([repeated.status, repeated.body.id], [202, accepted!.id])
      assert.strictEqual(repeated.location, `${url}/v1/operations/${accepted!.id}`)
      assert.strictEqual((yield* settled(repeated.location!, token)).state, "succeeded")
      const webhook = yield* ask(`${url}${webhooksPath}`, { method: "POST", body: "{}" })
      assert.strictEqual(webhook.status, 404, "without a secret there are no webhooks")

      const again = yield* pay({ token, url }, "rent-of-may")
      assert.deepStrictEqual([again.status, again.body.id, again.body.state], [202, accepted!.id, "succeeded"])
      assert.deepStrictEqual(
        (yield* bank.record).map(({ key, outcome }) => [key, outcome]),
        [[accepted!.id, "accepted"]]
      )
    }).pipe(Effect.provide(Bank)))

  it.live("runs by its npm script, on a database and a bank of its own: SIGTERM to npm stops all its processes", () =>
    Effect.gen(function*() {
      const admin = yield* freePort
      const environment = { DATA_DIR: yield* temporaryDirectory, ADMIN_PORT: String(admin) }
      const payments = yield* startPayments(environment, byNpm)
      const { location } = yield* pay(payments, "rent-of-may")
      assert.include(["succeeded", "failed"], (yield* settled(location!, payments.token)).state)
      // Webhooks of its own sandbox reach it, and are taken.
      const hints = Effect.promise(async () => (await scrape(admin)).total("gateway_hints_total"))
      for (let n = 0; n < 5; n++) yield* pay(payments, `rent-${n}`)
      while ((yield* hints) < 1) yield* Effect.sleep("20 millis")
      const tree = treeOf(payments.pid)
      yield* Effect.addFinalizer(() => Effect.sync(() => killAll(tree)))
      assert.isAbove(tree.length, 2, "npm, the server and its PostgreSQL")
      assert.strictEqual(yield* payments.stop("SIGTERM"), 0)
      assert.deepStrictEqual(leftOf(tree), [])
      assert.strictEqual((yield* Effect.exit(ask(`${payments.url}/healthz`)))._tag, "Failure", "the port is closed")
    }))
})
