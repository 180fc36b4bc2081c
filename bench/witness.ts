/**
 * `npm run bench:witness`: measures what the record of a claim batch in the witness costs, with a real etcd and a real PostgreSQL.
 *
 *     npm run bench:witness -- --backlog 5000
 *
 * First one worker process sends a backlog, without and with the witness. Then the records alone, by one worker and by several. It needs
 * Debian's packages etcd-server and etcd-client.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import type { WitnessStore } from "../src/witness/Witness.ts"
import { etcdServer, etcdWitness } from "../test/fixtures/EtcdServer.ts"
import { accept } from "../test/fixtures/Ledger.ts"
import { newLedger, whileRunning } from "../test/fixtures/OwnServer.ts"
import { issueAtNewProvider } from "../test/fixtures/Queue.ts"
import { makeRecord, until, witnessedWorkers } from "../test/fixtures/WitnessedWorkers.ts"
import { readOptions, whole } from "./shared/usage.ts"

const { backlog, batches: rounds } = readOptions(import.meta.url, {
  backlog: whole("Operations that the worker process sends", { from: 1, to: 1_000_000, default: 2000 }),
  batches: whole("Batches that are recorded alone", { from: 16, to: 1_000_000, default: 1000 })
})

const percentile = (times: ReadonlyArray<number>, share: number) =>
  times.toSorted((a, b) => a - b)[Math.floor(share * (times.length - 1))]!

/** Records batches of several workers, each one after the other. Times are milliseconds. */
const measure = Effect.fnUntraced(function*(store: WitnessStore, epoch: string, workers: number) {
  const times: Array<number> = []
  const startedAt = performance.now()
  yield* Effect.forEach(
    Array.from({ length: workers }, () => crypto.randomUUID()),
    (worker) =>
      Effect.gen(function*() {
        for (let batch = 1; batch <= rounds / workers; batch++) {
          const from = performance.now()
          yield* store.record({ epoch, worker, life: "00000001-1764000000000000", provider: "bank", batch })
          times.push(performance.now() - from)
        }
      }),
    { concurrency: "unbounded", discard: true }
  )
  const seconds = (performance.now() - startedAt) / 1000
  process.stdout.write(
    `${workers} workers: p50 ${percentile(times, 0.5).toFixed(2)} ms, p99 ${percentile(times, 0.99).toFixed(2)} ms, `
      + `${Math.round(times.length / seconds)} batches a second\n`
  )
})

/** Operations a second of one worker process with a provider that answers at once. */
const drain = Effect.fnUntraced(function*(witness: WitnessStore | null) {
  const ledger = yield* newLedger
  return yield* whileRunning(
    ledger,
    Effect.scoped(Effect.gen(function*() {
      const { grant, identity } = yield* issueAtNewProvider()
      yield* Effect.forEach(Array.from({ length: backlog }), () => accept(identity), { concurrency: 8, discard: true })
      const record = makeRecord()
      const startedAt = performance.now()
      yield* witnessedWorkers(grant.provider, witness, record)
      yield* until(Effect.sync(() => record.sent.length === backlog))
      return backlog / ((performance.now() - startedAt) / 1000)
    }))
  )
})

const main = Effect.scoped(Effect.gen(function*() {
  const { endpoint } = yield* etcdServer()
  const store = yield* etcdWitness({ endpoints: [endpoint] })
  for (let round = 0; round < 2; round++) {
    const fresh = yield* etcdWitness({ endpoints: [endpoint], prefix: `drain-${round}` })
    process.stdout.write(
      `without a witness: ${Math.round(yield* drain(null))} operations a second; with: ${
        Math.round(yield* drain(fresh))
      }\n`
    )
  }
  const epoch = crypto.randomUUID()
  yield* store.fence(null, epoch)
  yield* measure(store, epoch, 1)
  for (const workers of [1, 4, 16]) yield* measure(store, epoch, workers)
}))

NodeRuntime.runMain(main)
