/**
 * A webhook of the bank is a hint: it moves a status read to now, and proves nothing. The tests run the payments example as a
 * process, with PostgreSQL and a sandbox, and send it 10,000 forged, repeated, reordered and unknown webhooks.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { Webhook } from "standardwebhooks"
import { webhooksPath } from "../../../examples/payments/BankWebhooks.ts"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { defaultPolicy } from "../../../src/submission/SubmissionPolicy.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { ask, pay, type PaymentsProcess, startPayments } from "../../fixtures/examples/paymentsProcess.ts"
import { scrape } from "../../fixtures/metrics/Scrape.ts"
import { createDatabase, layerFor } from "../../fixtures/postgres/TestDatabase.ts"
import { freePort, urlOf } from "../../fixtures/processes/CommandLine.ts"
import { proxyTo, targetOf } from "../../fixtures/processes/Proxy.ts"

const newSecret = () => `whsec_${randomBytes(32).toString("base64")}`

/** Milliseconds until the bank decides: less than the tolerance of the signature, because its clock is ahead then. */
const decidesAfter = 200_000

const interval = Duration.toMillis(defaultPolicy.hintInterval)

/** A bank whose clock stands still: it decides when the test moves the clock. */
const startBank = Effect.fnUntraced(function*(webhooks: { readonly url: string; readonly secret: string }) {
  const clock = yield* Layer.build(TestClock.layer())
  const inBank = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provideContext(effect, clock)
  yield* inBank(TestClock.setTime(Date.now()))
  const sandbox = yield* inBank(Layer.build(Sandbox.layer({
    mix: {
      succeeded_at_once: 0,
      succeeded_later: 1,
      failed_later: 0,
      rejected: 0,
      shortest_ms: decidesAfter,
      longest_ms: decidesAfter
    },
    webhooks: { url: webhooks.url, secret: Redacted.make(webhooks.secret) }
  })))
  return { ...Context.get(sandbox, Sandbox), decide: inBank(TestClock.adjust(decidesAfter)) }
})

/** A way to the bank that counts the status reads of each payment. */
const startCounter = Effect.gen(function*() {
  const reads = new Map<string, number>()
  const proxy = yield* proxyTo({ port: 0 }, () => (bytes) => {
    for (const [, key] of bytes.toString("latin1").matchAll(/^GET \S*\/(\S+) HTTP/gm)) {
      reads.set(key!, (reads.get(key!) ?? 0) + 1)
    }
  })
  return {
    url: `http://127.0.0.1:${proxy.port}`,
    leadTo: (url: string) => {
      proxy.target = targetOf(url)
    },
    readsOf: (key: string) => reads.get(key) ?? 0
  }
})

/** The example with a bank that sends webhooks, and its database. */
const world = Effect.gen(function*() {
  const database = yield* createDatabase()
  const secret = newSecret()
  const counter = yield* startCounter
  const admin = yield* freePort
  const payments = yield* startPayments({
    DATABASE_URL: urlOf(database),
    BANK_URL: counter.url,
    BANK_WEBHOOK_SECRET: secret,
    ADMIN_PORT: String(admin)
  })
  const bank = yield* startBank({ url: `${payments.url}${webhooksPath}`, secret })
  counter.leadTo(bank.url)
  const sql = Context.get(yield* Layer.build(Layer.fresh(layerFor(database))), SqlClient.SqlClient)
  return { admin, bank, counter, payments, secret, sql }
})

interface Sent {
  readonly id: string
  readonly body: string
  readonly secret: string
  readonly at?: number
  readonly signature?: string
}

const headersOf = ({ at = Date.now(), body, id, secret, signature }: Sent) => ({
  "content-type": "application/json",
  "webhook-id": id,
  "webhook-timestamp": String(Math.floor(at / 1000)),
  "webhook-signature": signature ?? new Webhook(secret).sign(id, new Date(at), body)
})

const post = ({ url }: PaymentsProcess, sent: Sent) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}${webhooksPath}`, { method: "POST", headers: headersOf(sent), body: sent.body })
    const { date: _, "x-request-id": __, ...headers } = Object.fromEntries(response.headers)
    return { status: response.status, text: await response.text(), headers }
  })

const bodyOf = (operation: string, status: "pending" | "succeeded", type = "mutation.settled") =>
  JSON.stringify({ type, timestamp: "2026-01-01T00:00:00.000Z", data: { idempotency_key: operation, status } })

/** The other states of an operation take part in the wait, so that the wait ends with an error and not by a timeout. */
const untilState = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, id: string, states: ReadonlyArray<string>) {
  while (true) {
    const [row] = yield* sql<{ readonly state: string }>`SELECT state FROM operations WHERE id = ${id}`
    if (states.includes(row!.state)) return row!.state
    yield* Effect.sleep("5 millis")
  }
})

/**
 * The schedule reads the status in an hour, and after each further read in an hour again. It waits for the read that is under way:
 * its end would set the schedule again.
 */
const readInAnHour = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  // A change of `hinted_at` sets nothing else.
  yield* sql`UPDATE operations SET hinted_at = NULL WHERE due_at IS NOT NULL`
  while (true) {
    yield* sql`
      UPDATE operations SET reads = 1000, due_at = now() + interval '1 hour'
      WHERE due_at IS NOT NULL AND reading_since IS NULL`
    const [row] = yield* sql`SELECT FROM operations WHERE due_at IS NOT NULL AND reads < 1000`
    if (row === undefined) return
    yield* Effect.sleep("5 millis")
  }
})

const timeout = 240_000

const count = rounds(1000, 10_000)

describe("Webhooks of the bank", () => {
  it.live(
    `${count} of them change no state and cause few reads, and then a true one settles a payment`,
    () =>
      Effect.gen(function*() {
        const { admin, bank, counter, payments, secret, sql } = yield* world
        const ids: Array<string> = []
        for (let n = 0; n < 5; n++) {
          const { body } = yield* pay(payments, `rent-${n}`)
          ids.push(body.id)
          yield* untilState(sql, body.id, ["submitted"])
        }
        const listeners = yield* sql`
        SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`
        assert.lengthOf(listeners, 1, "the worker and the reconciler of a process listen on one connection")
        const [quiet, ...hinted] = ids as [string, ...ReadonlyArray<string>]
        yield* readInAnHour(sql)
        const history =
          sql`SELECT operation_id, revision, to_state, evidence FROM operation_history ORDER BY at, revision`
        const before = { history: yield* history, reads: new Map(ids.map((id) => [id, counter.readsOf(id)])) }

        const start = performance.now()
        const other = newSecret()
        const pick = (n: number) => hinted[n % hinted.length]!
        const sent = (id: string, body: string, more: Partial<Sent> = {}): Sent => ({ id, body, secret, ...more })
        const forged = (n: number) => {
          const body = bodyOf(pick(n), "succeeded")
          return [
            { secret: other },
            { at: Date.now() - 3_600_000 },
            { signature: "v1,bm90IGEgc2lnbmF0dXJl" },
            { signature: headersOf(sent(`msg_forged_${n}`, "{}"))["webhook-signature"] }
          ].map((more) => sent(`msg_forged_${n}`, body, more))
        }
        /** About operations that the gateway does not know, repeated, and the outcome before the acceptance. */
        const signed = (n: number) => [
          sent(`msg_unknown_${n}`, bodyOf(`019aa4f0-5c00-7b1e-8d2f-${String(n).padStart(12, "0")}`, "succeeded")),
          sent(`msg_text_${n}`, bodyOf("' OR true --\u0000", "succeeded")),
          sent(`msg_list_${n}`, "[1]"),
          sent("msg_repeated", bodyOf(pick(n), "succeeded")),
          sent(`msg_late_${n}`, bodyOf(pick(n), "succeeded")),
          sent(`msg_early_${n}`, bodyOf(pick(n), "pending", "mutation.accepted"))
        ]
        const answersTo = (kind: (n: number) => ReadonlyArray<Sent>) =>
          Effect.map(
            Effect.forEach(Array.from({ length: count / 10 }, (_, n) => kind(n)).flat(), (one) => post(payments, one), {
              concurrency: 16
            }),
            (answers) => [...new Set(answers.map((answer) => JSON.stringify(answer)))]
          )
        const [refused, taken] = yield* Effect.all([answersTo(forged), answersTo(signed)], { concurrency: 2 })
        assert.deepStrictEqual(refused.map((text) => (JSON.parse(text) as { status: number }).status), [401])
        // The sender learns nothing: known, unknown and useless webhooks get the same answer.
        assert.lengthOf(taken, 1)
        assert.deepInclude(JSON.parse(taken[0]!), { status: 204, text: "" })
        assert.strictEqual((yield* post(payments, { id: "msg_long", body: "x".repeat(20_000), secret })).status, 413)
        assert.strictEqual((yield* ask(`${payments.url}${webhooksPath}`)).status, 404)

        assert.deepStrictEqual(yield* history, before.history, "no state changed")
        const most = Math.floor((performance.now() - start) / interval) + 1
        for (const id of hinted) {
          const reads = counter.readsOf(id) - before.reads.get(id)!
          assert.isAtLeast(reads, 1)
          assert.isAtMost(reads, most)
        }
        assert.strictEqual(counter.readsOf(quiet), before.reads.get(quiet), "no webhook named it")
        const { total } = yield* Effect.promise(() => scrape(admin))
        const hints = total("gateway_hints_total", { result: "taken" })
        assert.isAtMost(hints, (most + 1) * hinted.length + 2 * ids.length)

        // The bank decides. Its webhook about this payment is the only reason to read within the hour.
        yield* bank.decide
        assert.strictEqual(yield* untilState(sql, quiet, ["succeeded", "failed"]), "succeeded")
        assert.strictEqual(counter.readsOf(quiet), before.reads.get(quiet)! + 1, "by one status read")
        for (const id of hinted) yield* untilState(sql, id, ["succeeded"])
        const proofs = yield* sql<{ readonly by: string }>`
        SELECT DISTINCT evidence->>'by' AS by FROM operation_history WHERE to_state = 'succeeded'`
        assert.deepStrictEqual(proofs, [{ by: "status_read" }])
      }),
    timeout
  )
})
