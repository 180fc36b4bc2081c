/**
 * Accepts requests at a steady rate, without waiting for their submission, and reports when each was accepted: at the
 * first message those of the warm-up, at the second those of the measurement.
 */
import { NodeCrypto, NodeRuntime } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Effect, Fiber, Layer, References } from "effect"
import { SqlClient } from "effect/sql"
import { IdempotencyKey } from "../../src/domain/Idempotency.ts"
import { PgAcceptanceSignal } from "../../src/node/postgres/PgAcceptanceSignal.ts"
import { WriterPool } from "../../src/node/postgres/Pools.ts"
import { OperationLedger } from "../../src/services/OperationLedger.ts"
import { configuration, report } from "../shared/processes.ts"
import { type AcceptorConfig, now, payloadOf, type PeerName, warmUpRate } from "./config.ts"
import { peerQueues } from "./peerQueues.ts"
import { databaseAt } from "./pools.ts"

const config = configuration<AcceptorConfig>()

/** Accepts the n-th request, and yields the id of its operation or job. */
type Accept = (n: number) => Effect.Effect<string>

const acceptByLedger = Effect.gen(function*() {
  const ledger = yield* OperationLedger
  const payload = payloadOf("at once")
  return ((n) =>
    ledger.accept(config.identity, { type: "payment", key: IdempotencyKey.make(`${config.prefix}${n}`), payload })
      .pipe(Effect.map(({ operation }) => operation.id), Effect.orDie)) satisfies Accept
})

const acceptByPeer = Effect.fnUntraced(function*(peer: PeerName) {
  const sql = yield* SqlClient.SqlClient
  const queue = yield* peerQueues[peer].open(config.database)
  return (() =>
    sql.withTransaction(queue.fill("", 1, "at once")).pipe(
      Effect.map(([id]) => id!),
      Effect.orDie
    )) satisfies Accept
})

const nextRequest = Effect.callback<void>((resume) => void process.once("message", () => resume(Effect.void)))

const { count, perSecond, warmUp } = config

const acceptSteadily = Effect.fnUntraced(function*(accept: Accept, from: number, to: number, rate: number) {
  const startedAt = performance.now()
  const accepting: Array<Fiber.Fiber<readonly [string, number]>> = []
  for (let n = from; n < to; n++) {
    const wait = startedAt + (n - from) * 1000 / rate - performance.now()
    if (wait > 0) yield* Effect.sleep(wait)
    accepting.push(yield* Effect.forkChild(Effect.map(accept(n), (id) => [id, now()] as const)))
  }
  return yield* Fiber.joinAll(accepting)
})

const main = Effect.fnUntraced(function*(accept: Accept) {
  report({})
  yield* nextRequest
  report({ accepted: yield* acceptSteadily(accept, 0, warmUp, warmUpRate) })
  yield* nextRequest
  report({ accepted: yield* acceptSteadily(accept, warmUp, warmUp + count, perSecond) })
  // The parent ends this process.
  yield* Effect.never
})

const Ledger = OperationLedger.layer.pipe(
  Layer.provide(config.announces ? PgAcceptanceSignal : Layer.empty),
  Layer.provide(WriterPool),
  Layer.provide(databaseAt(config.database)),
  Layer.provide(Layer.mergeAll(NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom))
)

const { database, port, socketDirectory, username } = config.database
const Pool = PgClient.layer({ host: socketDirectory, port, username, database, maxConnections: 4 })

const program = config.into === "gateway"
  ? Effect.provide(Effect.flatMap(acceptByLedger, main), Ledger)
  : Effect.provide(Effect.flatMap(acceptByPeer(config.into), main), Pool)

Effect.scoped(program).pipe(
  Effect.provideService(References.TracerEnabled, false),
  NodeRuntime.runMain
)
