/**
 * The usual: a table of payments with their keys, a worker that locks rows for a while, `fetch`, and three retries. It follows
 * https://docs.stripe.com/api/idempotent_requests: one key for all attempts of a payment, and a retry after a network failure or a 5xx.
 */
import * as http from "node:http"
import { Pool } from "pg"
import type { Payment } from "../types.ts"
import { accepted, readPayments, ready, runCommand, settings, tellOutcome } from "./shared.ts"

const pool = new Pool({ connectionString: settings.databaseUrl, max: settings.concurrency + 4 })
// A lost connection is replaced by the pool.
pool.on("error", () => {})
const query = <Row>(text: string, values: ReadonlyArray<unknown> = []) => pool.query<Row>({ text, values })

const sleep = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

type Result = { readonly state: "paid" | "failed"; readonly reason: string }

/** One request, and three retries. */
const pay = async ({ amount, currency, id, payee }: Payment): Promise<Result> => {
  let reason = ""
  for (let attempt = 0; attempt <= 3; attempt++) {
    if (attempt > 0) await sleep(250 * 2 ** attempt)
    try {
      const response = await fetch(`${settings.bankUrl}/payments`, {
        method: "POST",
        headers: {
          "authorization": `Bearer ${settings.bankToken}`,
          "content-type": "application/json",
          "idempotency-key": id
        },
        body: JSON.stringify({ reference: id, amount, currency, payee }),
        signal: AbortSignal.timeout(settings.requestTimeout)
      })
      if (response.ok) return { state: "paid", reason: "" }
      reason = `the bank answered ${response.status}`
      if (response.status < 500 && response.status !== 429) break
    } catch (error) {
      reason = error instanceof Error ? error.message : String(error)
    }
  }
  return { state: "failed", reason }
}

const lock = `
  UPDATE payments SET locked_until = now() + $2 * interval '1 second' WHERE id IN (
    SELECT id FROM payments WHERE state = 'waiting' AND (locked_until IS NULL OR locked_until < now())
    ORDER BY position LIMIT $1 FOR UPDATE SKIP LOCKED)
  RETURNING id, amount, currency, payee`

const finish = (id: string, { reason, state }: Result) =>
  query("UPDATE payments SET state = $2, reason = $3 WHERE id = $1 AND state = 'waiting'", [id, state, reason])

const work = async () => {
  const underWay = new Set<string>()
  const payAndFinish = async (payment: Payment) => {
    underWay.add(payment.id)
    try {
      await finish(payment.id, await pay(payment))
    } catch {
      // The database is down. The payment is tried again when its lock ends.
    } finally {
      underWay.delete(payment.id)
    }
  }
  // The lock lives for as long as its worker.
  setInterval(() => {
    query("UPDATE payments SET locked_until = now() + $2 * interval '1 second' WHERE id = ANY ($1)", [
      [...underWay],
      settings.leaseSeconds
    ]).catch(() => {})
  }, settings.leaseSeconds * 1000 / 3)
  // The bank's webhooks end a payment, too.
  http.createServer(async (request, response) => {
    let body = ""
    for await (const chunk of request) body += chunk
    const { reference, status } = JSON.parse(body) as { readonly reference: string; readonly status: string }
    if (status === "paid") await finish(reference, { state: "paid", reason: "webhook" }).catch(() => {})
    response.writeHead(204).end()
  }).listen(settings.webhookPort, "127.0.0.1")
  const ending = new AbortController()
  process.once("SIGTERM", () => {
    ending.abort()
    const end = () => underWay.size === 0 ? process.exit() : setTimeout(end, 50)
    end()
  })
  ready()
  while (!ending.signal.aborted) {
    const free = settings.concurrency - underWay.size
    if (free > 0) {
      const { rows } = await query<Payment>(lock, [free, settings.leaseSeconds]).catch(() => ({ rows: [] }))
      for (const payment of rows) void payAndFinish(payment)
      if (rows.length === free) continue
    }
    await sleep(free > 0 ? 100 : 10)
  }
}

await runCommand({
  prepare: async () => {
    await query(`CREATE TABLE IF NOT EXISTS payments (
      id text PRIMARY KEY, position bigint GENERATED ALWAYS AS IDENTITY, amount text NOT NULL, currency text NOT NULL,
      payee text NOT NULL, state text NOT NULL DEFAULT 'waiting', locked_until timestamptz, reason text NOT NULL DEFAULT '')`)
  },
  work,
  accept: async () => {
    for (const { amount, currency, id, payee } of await readPayments()) {
      await query("INSERT INTO payments (id, amount, currency, payee) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING", [
        id,
        amount,
        currency,
        payee
      ])
      accepted(id)
    }
  },
  outcomes: async () => {
    const { rows } = await query<{ readonly id: string; readonly state: string; readonly reason: string }>(
      "SELECT id, state, reason FROM payments"
    )
    for (const { id, reason, state } of rows) {
      tellOutcome({ id, told: state === "waiting" ? "open" : state as Result["state"], reason })
    }
  }
})
