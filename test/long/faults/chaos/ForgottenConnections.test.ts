/**
 * Workers open new connections to the database when a firewall drops the old ones silently. The test drops them with a
 * proxy, and waits for the next operation.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import { IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import { OperationLedger } from "../../../../src/services/OperationLedger.ts"
import { readLedger } from "../kit/Evidence.ts"
import { clients, everyoneWorks, grantsOf, makeScene } from "../kit/Scene.ts"

const stateOf = (key: string) =>
  Effect.map(readLedger, ({ operations }) => operations.find((operation) => operation.key === key)?.state)

/** Milliseconds: much longer than a worker's pool keeps a connection, and shorter than the retransmissions of TCP. */
const silence = 60_000

it.live(
  "workers open new connections to the database when a firewall has dropped the old ones silently",
  () =>
    Effect.gen(function*() {
      const scene = yield* makeScene({ seed: "forgotten", workers: 4, faults: {} })
      yield* everyoneWorks(scene)
      const [grant] = yield* grantsOf(scene)
      for (const { databaseLink } of scene.crew.workers) databaseLink.strike("forgotten", silence)
      const struckAt = Date.now()
      yield* OperationLedger.use((ledger) =>
        ledger.accept(grant!.identity, { type: "payment", key: IdempotencyKey.make("after"), payload: {} })
      ).pipe(Effect.provide(clients(scene)))
      yield* stateOf("after").pipe(
        Effect.repeat({ until: (state) => state !== "accepted", schedule: Schedule.spaced("100 millis") }),
        Effect.timeout(silence),
        Effect.provide(Layer.fresh(scene.direct))
      )
      assert.isBelow(Date.now() - struckAt, silence / 2)
    }).pipe(Effect.scoped),
  120_000
)
