/**
 * A process that stops answers its waiting requests at once. The test starts the payments example, and stops it by SIGTERM.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as http from "node:http"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { ask, direct, pay, settled, startPayments } from "../../fixtures/examples/paymentsProcess.ts"
import { createDatabase, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { urlOf } from "../../fixtures/processes/CommandLine.ts"

const Bank = Sandbox.layer({
  mix: { succeeded_at_once: 1, succeeded_later: 0, failed_later: 0, rejected: 0, shortest_ms: 1, longest_ms: 2 }
})

interface Answer {
  readonly status: number | undefined
  readonly headers: http.IncomingHttpHeaders
  readonly text: string
}

/** A GET that keeps its connection, unless the server closes it. Fails if the connection breaks. */
const get = (url: string, headers: http.OutgoingHttpHeaders): Effect.Effect<Answer> =>
  Effect.promise(() =>
    new Promise((resolve, reject) => {
      const request = http.get(url, { headers: { connection: "keep-alive", ...headers }, agent: false }, (response) => {
        let text = ""
        response.setEncoding("utf8").on("data", (chunk: string) => text += chunk)
        response.once("end", () => resolve({ status: response.statusCode, headers: response.headers, text }))
        response.once("error", reject)
      })
      request.once("error", reject)
    })
  )

describe("A process with waiting requests", () => {
  it.live("on SIGTERM answers each with what is true then, and exits with 0", () =>
    Effect.gen(function*() {
      const { url } = yield* Sandbox
      const environment = { DATABASE_URL: urlOf(yield* createDatabase()), BANK_URL: url }
      const payments = yield* startPayments(environment, direct("test/system/node/waitingPayments.ts"))
      const authorization = `Bearer ${payments.token}`
      const { location } = yield* pay(payments, "rent-of-may")
      yield* settled(location!, payments.token)
      const { headers } = yield* get(location!, { authorization })
      const feed = `${payments.url}/v1/operations/changes`
      const { body } = yield* ask(feed, { headers: { authorization } })
      const token = body.next_change_token as string

      const waiting = { authorization, prefer: "wait=60" }
      const reads = yield* Effect.forEach(
        [1, 2, 3],
        () => Effect.forkChild(get(location!, { ...waiting, "if-none-match": headers.etag }))
      )
      const pages = yield* Effect.forEach([1, 2], () => Effect.forkChild(get(`${feed}?after=${token}`, waiting)))
      // The watcher starts before the first of them reads. Once it reads again after all five, they all wait.
      const lines = (line: string, count: number) => `(?:[^]*?${line}\\n){${count}}`
      yield* payments.prints(
        new RegExp(`the watcher starts\\n${lines("a request has read", 5)}${lines("the watcher has read", 2)}`)
      )
      assert.strictEqual(yield* payments.stop("SIGTERM"), 0)
      for (const fiber of reads) {
        const answer = yield* Fiber.join(fiber)
        assert.deepStrictEqual([answer.status, answer.text], [304, ""])
        assert.deepInclude(answer.headers, { "preference-applied": "wait=60", connection: "close", etag: headers.etag })
      }
      for (const fiber of pages) {
        const answer = yield* Fiber.join(fiber)
        assert.strictEqual(answer.status, 200)
        assert.deepInclude(answer.headers, { "preference-applied": "wait=60", connection: "close" })
        assert.deepInclude(JSON.parse(answer.text) as object, { operations: [], has_more: false })
      }
    }).pipe(Effect.provide([Bank, Platform])))
})
