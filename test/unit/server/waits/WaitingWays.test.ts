/**
 * A request waits on every way into the gateway: beyond its deadline, without a slot, and not after its client has left.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Lifecycle } from "../../../../src/server/gate/Lifecycle.ts"
import { assertFreeSlots } from "../../../fixtures/http/BothWays.ts"
import { makeHeld, readOf, ways } from "../../../fixtures/http/HeldRequests.ts"
import { fixedId, fixedIdentity } from "../../../fixtures/http/HttpFixed.ts"
import { acquireWire } from "../../../fixtures/http/HttpGateway.ts"

/** The operation of the held store never ends. */
const waiting = (seconds: number) => readOf(`/v1/operations/${fixedId}`, `Prefer: wait=${seconds}\r\n`)

const names = [
  "on the way of plain requests",
  "on the adapter",
  "on the routes of the gateway in another application"
] as const satisfies ReadonlyArray<keyof typeof ways>

const limits = { maxInFlight: 1, maxInFlightPerClient: 1, maxWaiting: 1, maxWaitingPerClient: 1 }

/** A store that answers at once. */
const released = () => {
  const held = makeHeld()
  held.release()
  return held
}

/** What another request would get now. */
const roomFor = (lifecycle: Lifecycle["Service"]) =>
  Effect.delay(
    Effect.withFiber((fiber) => {
      const request = lifecycle.admit(fiber)
      if (request === null) return Effect.succeed("nothing")
      const room = lifecycle.park(request, () => {}) ? "a slot and a wait" : "a slot"
      lifecycle.leave(request)
      return Effect.succeed(room)
    }),
    5
  )

describe.concurrent("A request that waits", () => {
  it.live.each(names)(
    "is answered after its time, beyond the deadline of a read: %s",
    (name) =>
      Effect.gen(function*() {
        const { lifecycle, port } = yield* ways[name](released(), { ...limits, deadline: 1500 })
        const wire = yield* acquireWire(port)
        wire.send(waiting(2))
        const answer = yield* Effect.promise(() => wire.next())
        assert.strictEqual(answer!.status, 200)
        assert.strictEqual(answer!.headers["preference-applied"], "wait=2")
        yield* assertFreeSlots(lifecycle, fixedIdentity.client_id, limits.maxInFlight)
      })
  )

  it.live.each(names)(
    "leaves the slots to others, and its place to the next one once its client leaves: %s",
    (name) =>
      Effect.gen(function*() {
        const { lifecycle, port } = yield* ways[name](released(), { ...limits, deadline: 60_000 })
        for (let round = 0; round < 3; round++) {
          const wire = yield* acquireWire(port)
          wire.send(waiting(60))
          yield* Effect.repeat(roomFor(lifecycle), { until: (room) => room === "a slot" })
          wire.destroy()
          yield* Effect.repeat(roomFor(lifecycle), { until: (room) => room === "a slot and a wait" })
          yield* assertFreeSlots(lifecycle, fixedIdentity.client_id, limits.maxInFlight)
        }
      })
  )
})
