/**
 * Accepts requests at a steady rate, without waiting for their submission, and reports when each was accepted.
 */
import { NodeCrypto, NodeRuntime } from "@effect/platform-node"
import { Effect, Fiber, Layer, References } from "effect"
import { Pool } from "pg"
import { IdempotencyKey } from "../../src/domain/Idempotency.ts"
import * as PgAcceptanceSignal from "../../src/node/PgAcceptanceSignal.ts"
import { WriterPool } from "../../src/node/Pools.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { configuration, report } from "../shared/processes.ts"
import { type AcceptorConfig, now, payloadOf, peerChannel, pgOptions } from "./config.ts"
import { databaseAt } from "./pools.ts"

const config = configuration<AcceptorConfig>()
const payload = payloadOf("at once")

const addJob = "INSERT INTO peer.jobs (payload) VALUES ($1) RETURNING id"

/** Accepts the n-th request, and yields the id of its operation or job. */
const makeAccept = Effect.gen(function*() {
  if (config.into === "ledger") {
    const ledger = yield* OperationLedger
    return (n: number): Effect.Effect<string> =>
      ledger.accept(config.identity, { type: "payment", key: IdempotencyKey.make(`${config.prefix}${n}`), payload })
        .pipe(Effect.map(({ operation }) => operation.id), Effect.orDie)
  }
  const pool = yield* Effect.acquireRelease(
    Effect.sync(() => new Pool({ ...pgOptions(config.database), max: 4 })),
    (opened) => Effect.promise(() => opened.end())
  )
  const values = [JSON.stringify(payload), ...config.announces ? [peerChannel] : []]
  const text = config.announces ? `${addJob}, pg_notify($2, '1')` : addJob
  return () =>
    Effect.map(
      Effect.promise(() => pool.query<{ readonly id: string }>({ name: "add", text, values })),
      ({ rows }) => rows[0]!.id
    )
})

const start = Effect.callback<void>((resume) => void process.once("message", () => resume(Effect.void)))

const main = Effect.gen(function*() {
  const accept = yield* makeAccept
  report({})
  yield* start
  const startedAt = performance.now()
  const accepting: Array<Fiber.Fiber<readonly [string, number]>> = []
  for (let n = 0; n < config.count; n++) {
    const wait = startedAt + n * 1000 / config.perSecond - performance.now()
    if (wait > 0) yield* Effect.sleep(wait)
    accepting.push(yield* Effect.forkChild(Effect.map(accept(n), (id) => [id, now()] as const)))
  }
  report({ accepted: yield* Fiber.joinAll(accepting) })
  // The parent ends this process.
  yield* Effect.never
})

const Ledger = OperationLedger.layer.pipe(
  Layer.provide(config.announces ? PgAcceptanceSignal.layer : Layer.empty),
  Layer.provide(WriterPool),
  Layer.provide(databaseAt(config.database)),
  Layer.provide(Layer.mergeAll(NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom))
)

Effect.scoped(main).pipe(
  Effect.provide(Ledger),
  Effect.provideService(References.TracerEnabled, false),
  NodeRuntime.runMain
)
