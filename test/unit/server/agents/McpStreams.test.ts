/**
 * A call of an agent frees its slots, its place among the waits and its connection, however it ends. A call that waits is answered
 * at its deadline and at the shutdown. The tests hold reads in the store and close sockets.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import * as RpcServer from "effect/rpc/RpcServer"
import * as fc from "fast-check"
import { adviceOnRefusal } from "../../../../src/mcp/Advice.ts"
import { refusalText } from "../../../../src/mcp/OperationAnswer.ts"
import { RpcClients } from "../../../../src/mcp/RpcClients.ts"
import { Lifecycle, type LifecycleOptions } from "../../../../src/server/gate/Lifecycle.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { assertFreeSlots } from "../../../fixtures/http/BothWays.ts"
import {
  fixedGateway,
  fixedId,
  fixedIdentity,
  fixedToken,
  operationWith,
  type Services
} from "../../../fixtures/http/HttpFixed.ts"
import { Gateway } from "../../../fixtures/http/HttpGateway.ts"
import { Observer } from "../../../fixtures/http/HttpObserver.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"
import { openWire } from "../../../fixtures/http/HttpWire.ts"
import {
  begin,
  callOf,
  eventsOf,
  legacy,
  type Message,
  messagesOf,
  modern,
  post,
  requestOf
} from "../../../fixtures/mcp/HttpMcp.ts"

const serve = Effect.fnUntraced(function*(services: Services, lifecycle: Partial<LifecycleOptions> = {}) {
  const context = yield* Layer.build(
    fixedGateway(services, { lifecycle, gracefulShutdownTimeout: 1 }).pipe(Layer.provideMerge(RpcClients.layer))
  )
  return {
    port: Context.get(context, Gateway).port,
    lifecycle: Context.get(context, Lifecycle),
    lines: Context.get(context, Observer).lines,
    /** The ids of the connections to Effect's server. */
    connections: Context.get(context, RpcServer.Protocol).clientIds
  }
})

const wait = (version: string, id: unknown, seconds: number) =>
  callOf(version, id, "wait_for_operation", { id: fixedId, seconds }, { progressToken: "p" })

const start = (port: number, message: Message, headers = {}) => begin(port, fixedToken, message, headers)

const json = { accept: "application/json" }

const hasProgress = (text: string) => text.includes("notifications/progress")

/** The number of further requests that may wait, up to `most`. */
const freePlaces = (lifecycle: Lifecycle["Service"], most: number) =>
  Effect.withFiber((fiber) =>
    Effect.sync(() => {
      const taken = Array.from({ length: most }, () => lifecycle.admit(fiber)).filter((request) => request !== null)
      const places = taken.filter((request) => {
        lifecycle.admitClient(request, fixedIdentity.client_id)
        return lifecycle.park(request, () => {})
      })
      for (const request of taken) lifecycle.leave(request)
      return places.length
    })
  )

const limits = { maxInFlight: 8, maxInFlightPerClient: 8, maxWaiting: 8, maxWaitingPerClient: 8, deadline: 60_000 }

/** The ways in which a call ends. Each resolves after that. */
const endings: Readonly<Record<string, (port: number, version: string) => Promise<unknown>>> = {
  finished: (port, version) => post(port, fixedToken, callOf(version, 1, "get_operation", { id: fixedId })),
  failed: (port, version) => post(port, fixedToken, callOf(version, 1, "no_tool", {})),
  refused: (port, version) => post(port, fixedToken, callOf(version, null, "get_operation", { id: fixedId })),
  notified: (port, version) => post(port, fixedToken, { ...wait(version, undefined, 55), method: "tools/call" }),
  cancelled: (port) =>
    post(port, fixedToken, { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } }),
  "read to the end": (port, version) => start(port, wait(version, 1, 1)).complete,
  "left in mid-stream": async (port, version) => {
    const stream = start(port, wait(version, 1, 55))
    await stream.until(hasProgress)
    stream.destroy()
  },
  "left in mid-wait": async (port, version) => {
    const call = start(port, wait(version, 1, 55), json)
    await new Promise((resolve) => setTimeout(resolve, 20))
    call.destroy()
  },
  "left before the body ends": async (port) => {
    const wire = await openWire(port)
    wire.send(
      `POST /mcp HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${fixedToken}\r\nContent-Type: application/json\r\n`
        + "Content-Length: 1000\r\n\r\n{\"jsonrpc\":"
    )
    await new Promise((resolve) => setTimeout(resolve, 5))
    wire.destroy()
  }
}

const anyMix = fc.array(fc.tuple(fc.constantFrom(...Object.keys(endings)), fc.constantFrom(modern, legacy)), {
  minLength: 1,
  maxLength: 8
})

describe("A call of an agent", () => {
  it.live("frees its slot, its place and its connection, for each end of it and of others", () =>
    Effect.gen(function*() {
      // A request whose body never ends keeps its slot until the deadline.
      const { connections, lifecycle, lines, port } = yield* serve({}, { ...limits, deadline: 500 })
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(anyMix, async (mix) => {
            await Promise.all(mix.map(([ending, version]) => endings[ending]!(port, version)))
            await Effect.runPromise(assertFreeSlots(lifecycle, fixedIdentity.client_id, limits.maxInFlight))
            const isFree = freePlaces(lifecycle, limits.maxWaiting).pipe(
              Effect.delay(1),
              Effect.repeat({ until: (places) => places === limits.maxWaiting, times: 5000 })
            )
            assert.strictEqual(await Effect.runPromise(isFree), limits.maxWaiting)
            assert.strictEqual((await Effect.runPromise(connections)).size, 0)
          }),
          {
            numRuns: rounds(4, 25),
            endOnFailure: true,
            examples: [modern, legacy].map((version) => [
              Object.keys(endings).map((ending) => [ending, version] as const)
            ])
          }
        )
      )
      assert.deepStrictEqual(lines.filter(({ level }) => level === "ERROR" || level === "FATAL"), [])
    }))

  it.live.each([modern, legacy])(
    "that may not wait is answered at once, with the operation and the advice: %s",
    (version) =>
      Effect.gen(function*() {
        const { lifecycle, port } = yield* serve({}, { ...limits, maxWaitingPerClient: 1 })
        const first = start(port, wait(version, 1, 55))
        yield* Effect.promise(() => first.until(hasProgress))
        yield* Effect.repeat(freePlaces(lifecycle, 1), { until: (places) => places === 0 })
        const answer = yield* Effect.promise(() => post(port, fixedToken, wait(version, 1, 55)))
        const { structuredContent } = messagesOf(answer).at(-1)!["result"]
        assert.strictEqual(structuredContent.operation.id, fixedId)
        assert.match(structuredContent.advice, /Do not send/)
        first.destroy()
      })
  )

  it.live.each([modern, legacy])(
    "ends its stream with an error if the store hangs: %s",
    (version) =>
      Effect.gen(function*() {
        let reads = 0
        const find = () => ++reads === 1 ? Effect.succeed(operationWith()) : Effect.never
        const { lifecycle, port } = yield* serve({ find }, { ...limits, deadline: 300 })
        const answer = yield* Effect.promise(() => post(port, fixedToken, wait(version, "id", 1)))
        // On a busy machine, the deadline may come before the first read.
        if (answer.status === 503) return assertProblemOf(answer, "service_unavailable")
        const messages = eventsOf(answer.text)
        assert.isTrue(hasProgress(answer.text))
        assert.deepStrictEqual(messages.at(-1), {
          jsonrpc: "2.0",
          id: "id",
          error: {
            code: -32_000,
            message: refusalText({ code: "service_unavailable", detail: "The store did not answer in time." }),
            data: { code: "service_unavailable" }
          }
        })
        yield* assertFreeSlots(lifecycle, fixedIdentity.client_id, limits.maxInFlight)
      })
  )

  it.live.each([modern, legacy])(
    "that fails with a defect gets the advice, and the log has the cause: %s",
    (version) =>
      Effect.gen(function*() {
        const { lines, port } = yield* serve({ find: () => Effect.die(new Error("broken store")) }, limits)
        const calls = [
          callOf(version, 1, "get_operation", { id: fixedId }),
          requestOf(version, 1, "resources/read", { uri: `operation://${fixedId}` })
        ]
        for (const call of calls) {
          const answer = yield* Effect.promise(() => post(port, fixedToken, call))
          const { error, result } = messagesOf(answer)[0]!
          const { advice, problem } = JSON.parse(result?.content[0].text ?? error.message)
          assert.strictEqual(problem.code, "internal_error")
          assert.strictEqual(advice, adviceOnRefusal("internal_error"))
          assert.notInclude(answer.text, "broken store")
        }
        const causes = lines.filter(({ level, text }) => level === "ERROR" && text.includes("broken store"))
        assert.isAtLeast(causes.length, calls.length)
      })
  )

  it.live("that waits is answered at once when the shutdown begins", () =>
    Effect.gen(function*() {
      const { lifecycle, port } = yield* serve({}, { ...limits, drainTimeout: 120_000 })
      const waits = [modern, legacy].flatMap((version) => [
        start(port, wait(version, 1, 55)),
        start(port, wait(version, 1, 55), json)
      ])
      yield* Effect.repeat(freePlaces(lifecycle, limits.maxWaiting), {
        until: (places) => places === limits.maxWaiting - waits.length
      })
      const draining = yield* Effect.forkChild(lifecycle.drain)
      for (const { complete } of waits) {
        const answer = yield* Effect.promise(() => complete)
        const { id, result } = messagesOf(answer).at(-1)!
        assert.strictEqual(id, 1)
        assert.strictEqual(result.structuredContent.operation.id, fixedId)
      }
      // The drain ends without its timeout.
      yield* Fiber.join(draining)
      const late = yield* Effect.promise(() => post(port, fixedToken, requestOf(modern, 1, "tools/list")))
      assertProblemOf(late, "service_unavailable")
    }))
})
