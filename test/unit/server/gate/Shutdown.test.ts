/**
 * A shutdown finishes running reads, refuses new ones, and ends within its timeout. The tests hold reads in the store
 * and watch the socket.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { Lifecycle } from "../../../../src/server/gate/Lifecycle.ts"
import { heldStore, makeHeld } from "../../../fixtures/http/HeldRequests.ts"
import { fixedGateway, fixedId, fixedToken, type Services } from "../../../fixtures/http/HttpFixed.ts"
import { Gateway, type GatewayOptions } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"
import { openWire } from "../../../fixtures/http/HttpWire.ts"

const target = `/v1/operations/${fixedId}`
const request = `GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${fixedToken}\r\n\r\n`

/** A gateway that the test stops explicitly. */
const start = Effect.fnUntraced(function*(services: Services, options?: GatewayOptions) {
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(fixedGateway(services, options), scope)
  return {
    gateway: Context.get(context, Gateway),
    lifecycle: Context.get(context, Lifecycle),
    stop: Scope.close(scope, Exit.void)
  }
})

const refusesConnections = (port: number) =>
  Effect.promise(() =>
    openWire(port).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === "ECONNREFUSED"
    )
  )

describe("A shutdown", () => {
  it.live("refuses new reads, reports not ready, and lets running reads finish", () =>
    Effect.gen(function*() {
      const held = makeHeld()
      const { gateway, lifecycle, stop } = yield* start(heldStore(held), {
        // Never needed: the last running read ends the drain, and no connection is kept, so the server closes at once.
        lifecycle: { deadline: 120_000, drainTimeout: 120_000 },
        gracefulShutdownTimeout: 120_000
      })
      const { check, listener, port, send } = gateway
      const inside = yield* Effect.promise(() => openWire(port))
      inside.send(request)
      yield* held.entered(1)
      assert.isFalse(lifecycle.isDraining())
      const stopping = yield* Effect.forkChild(stop)
      const notReady = yield* Effect.repeat(send("/readyz"), { until: ({ status }) => status === 503 })
      assert.include(assertProblemOf(notReady, "not_ready").detail, "shutting down")
      assert.isTrue(lifecycle.isDraining())
      for (const path of [target, "/v1/operations"]) {
        assertProblemOf(yield* send(path, { token: fixedToken }), "service_unavailable")
      }
      const health = yield* send("/healthz")
      assert.strictEqual(health.status, 200)
      assert.strictEqual(health.headers["connection"], "close")
      assert.isTrue(listener.listening)
      held.release()
      const answer = yield* Effect.promise(() => inside.next())
      check({ method: "GET", target }, answer!)
      assert.strictEqual(answer!.status, 200)
      yield* Fiber.join(stopping)
      assert.strictEqual(yield* Effect.promise(() => inside.closed), "")
      assert.isFalse(listener.listening)
      assert.isTrue(yield* refusesConnections(port))
    }))

  it.live("does not wait when no read is running, and closes idle connections", () =>
    Effect.gen(function*() {
      const { gateway: { port, send }, stop } = yield* start({}, {
        lifecycle: { drainTimeout: 60_000 },
        gracefulShutdownTimeout: 60_000
      })
      assert.strictEqual((yield* send("/healthz")).status, 200)
      const idle = yield* Effect.promise(() => openWire(port))
      idle.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
      assert.strictEqual((yield* Effect.promise(() => idle.next()))!.status, 200)
      yield* stop
      assert.strictEqual(yield* Effect.promise(() => idle.closed), "")
      assert.isTrue(yield* refusesConnections(port))
    }))
})
