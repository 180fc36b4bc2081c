/** An exchange gives its client what the client needs to keep a credential secret, and closes the deadline at its end. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import type { HttpClientRequest } from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Redacted from "effect/Redacted"
import * as Tracer from "effect/Tracer"
import * as HttpProvider from "../../../../src/submission/http/HttpProvider.ts"
import { SendDeadline } from "../../../../src/submission/http/SendDeadline.ts"
import { operationOf, optionsFor, succeeded } from "../../../fixtures/submission/HttpProviderServer.ts"

const answer = (request: HttpClientRequest) =>
  HttpClientResponse.fromWeb(
    request,
    new Response(succeeded, {
      headers: { "content-type": "application/json", "content-length": `${succeeded.length}` }
    })
  )

const submitWith = (client: HttpClient.HttpClient, overrides: Parameters<typeof optionsFor>[1] = {}) =>
  Effect.gen(function*() {
    const { submit } = yield* HttpProvider.make(optionsFor("http://provider.example", overrides))
    const operation = operationOf()
    return { operation, answer: yield* submit(operation, {}) }
  }).pipe(Effect.provideService(HttpClient.HttpClient, client))

describe("An exchange", () => {
  it.effect("closes the deadline when it is interrupted", () =>
    Effect.gen(function*() {
      let deadline: SendDeadline | null = null
      const client = HttpClient.make((_, __, ___, fiber) => {
        deadline = fiber.getRef(SendDeadline)
        deadline?.watch()
        return Effect.never
      })
      const fiber = yield* Effect.forkChild(submitWith(client), { startImmediately: true })
      yield* Fiber.interrupt(fiber)
      // The closure has set it.
      assert.isFalse((deadline as SendDeadline | null)?.pass())
    }))

  it.effect("redacts the headers of credentials in a request that its client prints", () =>
    Effect.gen(function*() {
      let printed = ""
      const client = HttpClient.make((request) => {
        printed = JSON.stringify(request)
        return Effect.succeed(answer(request))
      })
      yield* submitWith(client, { credentials: () => Effect.succeed({ "x-secret-key": Redacted.make("secret") }) })
      assert.include(printed, "x-secret-key")
      assert.notInclude(printed, "\"secret\"")
    }))

  it.effect("bounds a body whose encoding hides its length", () =>
    Effect.gen(function*() {
      const headers = { "content-type": "application/json", "content-encoding": "gzip", "content-length": "10" }
      const client = HttpClient.make((request) =>
        Effect.succeed(HttpClientResponse.fromWeb(request, new Response(succeeded, { headers })))
      )
      const { _tag } = yield* Effect.flip(submitWith(client, { maxBodySize: succeeded.length - 1 }))
      assert.strictEqual(_tag, "Uncertain")
    }))

  it.effect("adds its settings of fetch to those of the caller", () =>
    Effect.gen(function*() {
      let init: RequestInit | undefined
      const client = HttpClient.make((request, _, __, fiber) => {
        init = Context.getOrUndefined(fiber.context, FetchHttpClient.RequestInit)
        return Effect.succeed(answer(request))
      })
      yield* submitWith(client).pipe(
        Effect.provideService(FetchHttpClient.RequestInit, { integrity: "of the caller", redirect: "follow" })
      )
      assert.deepStrictEqual(init, { integrity: "of the caller", redirect: "manual", cache: "no-store" })
    }))

  it.effect("has a span with the id of the operation", () =>
    Effect.gen(function*() {
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const { operation } = yield* submitWith(HttpClient.make((request) => Effect.succeed(answer(request)))).pipe(
        Effect.provideService(Tracer.Tracer, tracer)
      )
      assert.deepStrictEqual(
        spans.map(({ attributes, name }) => [name, attributes.get("operation.id")]),
        [["HttpProvider.submit", operation.id]]
      )
    }))
})
