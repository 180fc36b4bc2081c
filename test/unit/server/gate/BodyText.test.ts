/**
 * A body is text in UTF-8, on every way by which it is read as text: a key never stands for two bodies that only look alike. The tests
 * send bytes to a compiled endpoint, to one that Effect decodes, and to `/mcp`.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import * as fc from "fast-check"
import { OpenGate } from "../../../../src/api/Middleware.ts"
import { mutationEndpoint } from "../../../../src/api/MutationEndpoint.ts"
import * as CompiledGroup from "../../../../src/dispatch/CompiledGroup.ts"
import { McpRoutes } from "../../../../src/server/agents/McpRoutes.ts"
import { layerServer } from "../../../../src/server/Gateway.ts"
import { serveApplication } from "../../../fixtures/http/HeldRequests.ts"
import { applicationGate, fixedToken, operationWith } from "../../../fixtures/http/HttpFixed.ts"
import { assertProblemOf, baseUrl } from "../../../fixtures/http/HttpProblem.ts"
import { openRequest } from "../../../fixtures/http/HttpWire.ts"
import { callOf, headersOf, legacy } from "../../../fixtures/mcp/HttpMcp.ts"

const payload = Schema.Struct({ name: Schema.String })

class TeamApi extends HttpApi.make("team").add(
  HttpApiGroup.make("payments")
    .add(mutationEndpoint("pay", "/v1/payments", { payload }))
    .add(HttpApiEndpoint.post("open", "/v1/open", { payload, success: Schema.String }).middleware(OpenGate))
) {}

const Server = layerServer(
  HttpApiBuilder.layer(TeamApi).pipe(
    Layer.provide(CompiledGroup.group(TeamApi, "payments", (handlers) =>
      Effect.succeed(
        handlers
          .handle("pay", () =>
            Effect.succeed(HttpApiSchema.withHeaders({ body: operationWith(), headers: { location: baseUrl } })))
          .handle("open", ({ payload }) =>
            Effect.succeed(payload.name))
      ))),
    Layer.provide(applicationGate)
  ),
  [TeamApi],
  McpRoutes()
)

const named = { "/v1/payments": { name: "Müller" }, "/v1/open": { name: "Müller" } }
const bodies = Object.entries({ ...named, "/mcp": callOf(legacy, 1, "get_operation", { id: "Müller" }) })

const makeSend = Effect.map(
  serveApplication(Server, {}),
  ({ port }) => (path: string, body: Buffer, type = "application/json") =>
    openRequest(port, path, {
      method: "POST",
      headers: {
        ...headersOf({}),
        "content-type": type,
        "idempotency-key": "key-1",
        authorization: `Bearer ${fixedToken}`
      },
      body
    }).complete
)

describe("A body", () => {
  it.live.each(bodies)("is refused if it is not UTF-8, in any bytes: %s", ([path, body]) =>
    Effect.gen(function*() {
      const send = yield* makeSend
      // A type with a parameter takes Effect's way of decoding.
      for (const type of ["application/json", "application/json; charset=utf-8"]) {
        const latin = yield* Effect.promise(() => send(path, Buffer.from(JSON.stringify(body), "latin1"), type))
        assert.deepStrictEqual(assertProblemOf(latin, "invalid_request").fields, [
          { path: "body", message: "Expected text in UTF-8" }
        ])
        assert.isBelow((yield* Effect.promise(() => send(path, Buffer.from(JSON.stringify(body)), type))).status, 300)
      }
      const isUtf8 = (bytes: Buffer) => bytes.equals(Buffer.from(bytes.toString()))
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 4 }), async (bytes) => {
            const text = Buffer.concat([Buffer.from("\""), bytes, Buffer.from("\"")])
            assert.strictEqual((await send(path, text)).text.includes("Expected text in UTF-8"), !isUtf8(text))
          }),
          { numRuns: 50 }
        )
      )
    }))

  it.live.each(bodies)(
    "is refused if it names another charset, and never for UTF-8: %s",
    ([path, body]) =>
      Effect.gen(function*() {
        const send = yield* makeSend
        const bytes = Buffer.from(JSON.stringify(body))
        for (const charset of ["utf-8", "UTF-8", "utf8", "\"utf-8\"", " Utf-8 ;v=1"]) {
          const { status } = yield* Effect.promise(() => send(path, bytes, `application/json; Charset=${charset}`))
          assert.isBelow(status, 300, charset)
        }
        for (
          const charset of ["iso-8859-1", "", "\"utf-16\"", "utf-80", "\"utf-8", "utf-8;charset=latin1", "us-ascii"]
        ) {
          const answer = yield* Effect.promise(() => send(path, bytes, `application/json ; charset=${charset}`))
          assert.deepStrictEqual(assertProblemOf(answer, "invalid_request").fields, [
            { path: "header.content-type", message: "Expected charset=utf-8, or no charset" }
          ])
        }
      })
  )
})
