/**
 * Spans, logs and errors of the HTTP adapter hold no credentials and no payloads. The test searches everything that it
 * emits.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted } from "effect"
import type * as net from "node:net"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"
import {
  answering,
  clients,
  operationOf,
  optionsFor,
  rawServer,
  response
} from "../../../fixtures/submission/HttpProviderServer.ts"

const inspect = (value: unknown): string =>
  JSON.stringify(value, (_, one: unknown) =>
    one instanceof Error ?
      { ...one, name: one.name, message: one.message, stack: one.stack, cause: one.cause } :
      typeof one === "bigint"
      ? String(one)
      : one)

describe("Credentials and payloads", () => {
  const canaries = ["canary-token", "canary-payload", "canary-query", "canary-answer", "canary-defect"]
  for (const [name, client] of clients) {
    it.live(`appear in no span, log or error over ${name}`, () =>
      Effect.gen(function*() {
        const observer = yield* Observer
        const errors: Array<unknown> = []
        const behaviours = [
          answering(response(200, `{"canary-answer":1}`)),
          answering(response(500, `"canary-answer"`, { "X-Canary": "canary-answer" })),
          answering(response(302, "", { Location: "http://x/?canary-answer" })),
          answering("canary-answer"),
          answering(response(200, "canary-answer")),
          { onRequest: (socket: net.Socket) => socket.resetAndDestroy() },
          {}
        ]
        for (const behaviour of behaviours) {
          const server = yield* rawServer(behaviour)
          const base = optionsFor(server.url)
          const options = optionsFor(server.url, {
            deadlines: { headers: 100, body: 100 },
            credentials: () => Effect.succeed({ "X-Token": Redacted.make("canary-token") }),
            submit: { ...base.submit, request: (_, payload) => ({ path: "/m?q=canary-query", body: payload }) },
            status: { ...base.status, request: () => ({ path: "/m?q=canary-query" }) }
          })
          const { readStatus, submit } = yield* HttpProvider.make(options)
          const exit = yield* Effect.exit(submit(operationOf(), { secret: "canary-payload" }))
          errors.push(exit, yield* readStatus(operationOf(), null))
          if (Exit.isFailure(exit)) yield* Effect.logError("failed", exit.cause)
          assert.isAbove(server.bytes(), 0)
        }
        const spans = observer.spans.map(({ attributes, events, name, status }) => ({
          name,
          attributes: [...attributes],
          events,
          exit: status._tag === "Ended" ? status.exit : null
        }))
        assert.include(spans.map(({ name }) => name), "HttpProvider.submit")
        assert.isAbove(observer.lines.length, 0)
        const told = [spans, errors, observer.lines].map((one) => inspect(one)).join("\n")
        for (const canary of canaries) assert.notInclude(told, canary)
      }).pipe(
        Effect.provide(Layer.mergeAll(client(), Observer.observeLogs, Observer.observeSpans)),
        Effect.provide(Observer.layer)
      ))
  }
})
