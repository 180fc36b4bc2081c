/**
 * The deadline, the drain timeout and a client that leaves end the work of a request on every way into the gateway: the
 * work is interrupted, the slots are free, and a client that waits has a complete answer.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { assertFreeSlots } from "../../../fixtures/http/BothWays.ts"
import { makeHeld, ways } from "../../../fixtures/http/HeldRequests.ts"
import { fixedIdentity } from "../../../fixtures/http/HttpFixed.ts"
import { acquireWire } from "../../../fixtures/http/HttpGateway.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"

const names = Object.keys(ways) as ReadonlyArray<keyof typeof ways>

const slots = { maxInFlight: 2, maxInFlightPerClient: 2 }

/** Sends each request of the way on a connection of its own. */
const sendAll = Effect.fnUntraced(function*(requests: ReadonlyArray<string>, port: number) {
  return yield* Effect.forEach(requests, (request) =>
    Effect.map(acquireWire(port), (wire) => {
      wire.send(request)
      return wire
    }))
})

/** A request that may record work is told what is not known. */
const detailOf = (name: string, detail: string) =>
  name.startsWith("on a mutation endpoint")
    ? "Whether the request was recorded is not known. Repeat it with the same idempotency key."
    : detail

describe("A request that is held", () => {
  it.live.each(names)("is answered with a complete 503 at its deadline: %s", (name) =>
    Effect.gen(function*() {
      const held = makeHeld()
      // The first call of an agent to a cold server may take longer than the deadline of a read before it is held.
      const isAgent = name.startsWith("on the endpoint of agents")
      const { lifecycle, port, requests } = yield* ways[name](held, { ...slots, deadline: isAgent ? 300 : 20 })
      for (const wire of yield* sendAll(requests, port)) {
        const answer = yield* Effect.promise(() => wire.next())
        const { detail } = assertProblemOf(answer!, "service_unavailable")
        assert.strictEqual(detail, detailOf(name, "The store did not answer in time."))
      }
      yield* isAgent ? held.allInterrupted : held.interrupted(requests.length)
      yield* assertFreeSlots(lifecycle, fixedIdentity.client_id, slots.maxInFlight)
    }))

  it.live.each(names)("is answered with a complete 503 after the drain timeout: %s", (name) =>
    Effect.gen(function*() {
      const held = makeHeld()
      const { lifecycle, port, requests } = yield* ways[name](held, { ...slots, deadline: 60_000, drainTimeout: 20 })
      const wires = yield* sendAll(requests, port)
      yield* held.entered(requests.length)
      const draining = yield* Effect.forkChild(lifecycle.drain)
      for (const wire of wires) {
        const answer = yield* Effect.promise(() => wire.next())
        const { detail } = assertProblemOf(answer!, "service_unavailable")
        assert.strictEqual(detail, detailOf(name, "The gateway is shutting down."))
      }
      yield* held.interrupted(requests.length)
      yield* Fiber.join(draining)
    }))

  it.live.each(names)("is interrupted once its client leaves: %s", (name) =>
    Effect.gen(function*() {
      const held = makeHeld()
      const { lifecycle, port, requests } = yield* ways[name](held, { ...slots, deadline: 60_000 })
      for (let round = 1; round <= 3; round++) {
        const wires = yield* sendAll(requests, port)
        yield* held.entered(round * requests.length)
        for (const wire of wires) wire.destroy()
        yield* held.interrupted(round * requests.length)
        yield* assertFreeSlots(lifecycle, fixedIdentity.client_id, slots.maxInFlight)
      }
    }))
})
