/**
 * CPU and garbage of one statement on the pool of the readers, against the driver's own client with shared connections.
 *
 * `node --expose-gc bench/reads.ts [concurrent reads] [statements per round]`. Rounds alternate between the clients. It
 * starts a PostgreSQL of its own. Each read starts in a callback of the event loop of its own, as requests do.
 */
import { NodeRuntime } from "@effect/platform-node"
import * as PgClient from "@effect/sql-pg/PgClient"
import { Console, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as v8 from "node:v8"
import { LocalPostgres } from "../src/node/embedded/LocalPostgres.ts"
import { readerParameters } from "../src/node/Pools.ts"
import * as ReaderClient from "../src/node/ReaderClient.ts"
import { findById } from "../src/services/sql/readStatements.ts"

const [width, count] = [Number(process.argv[2] ?? 64), Number(process.argv[3] ?? 30_000)]
const rounds = 8

const grant = { grant_id: "", client_id: "", subject: "" } as unknown as Parameters<typeof findById>[0]
const id = "" as Parameters<typeof findById>[1]

/** As long as the statement that reads an operation, with as many parameters, but without tables. */
const text = `SELECT $1::text AS a, $2::text AS b, $3::text AS c, now() AS d, $4::text AS e /* ${
  findById(grant, id).text
} */`
  .replaceAll(/\$5/g, "")

/** Waits for up to four turns, so that the requests of a turn differ. */
const nextTurns = Effect.callback<void>((resume) => {
  let left = 1 + Math.floor(Math.random() * 4)
  const turn = () => {
    if (left-- > 0) setImmediate(turn)
    else resume(Effect.void)
  }
  turn()
})

const oldGeneration = () =>
  v8.getHeapSpaceStatistics().filter(({ space_name }) => !space_name.startsWith("new")).reduce(
    (sum, { space_used_size }) => sum + space_used_size,
    0
  )

/** Microseconds of CPU, and bytes by which the old generation grew, per statement. */
const round = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  let left = count
  const reader = Effect.whileLoop({
    while: () => left-- > 0,
    body: () => Effect.andThen(nextTurns, sql.unsafe(text, ["client", "subject", "grant", `operation ${left}`])),
    step: () => {}
  })
  globalThis.gc?.()
  const [cpu, old] = [process.cpuUsage(), oldGeneration()]
  yield* Effect.all(Array.from({ length: width }, () => reader), { concurrency: "unbounded", discard: true })
  const { system, user } = process.cpuUsage(cpu)
  return { cpu: (system + user) / count, grown: (oldGeneration() - old) / count }
})

const median = (values: ReadonlyArray<number>) => values.toSorted((a, b) => a - b)[values.length >> 1]!

const main = Effect.gen(function*() {
  const { database, port, socketDirectory, username } = yield* LocalPostgres
  const config = {
    host: socketDirectory,
    port,
    username,
    database,
    maxConnections: 4,
    startupParameters: readerParameters
  }
  const clients = [
    { name: "driver's client", layer: PgClient.layer({ ...config, multiplex: true }) },
    { name: "ReaderClient", layer: ReaderClient.layer(config) }
  ]
  const results = yield* Effect.forEach(clients, ({ layer, name }) =>
    Effect.map(Layer.build(layer), (context) => ({
      name,
      sql: Context.get(context, SqlClient.SqlClient),
      cpu: Array.of<number>(),
      grown: Array.of<number>()
    })))
  for (let n = 0; n <= rounds; n++) {
    for (const result of results) {
      const { cpu, grown } = yield* round(result.sql)
      // The first round compiles.
      if (n === 0) continue
      result.cpu.push(cpu)
      result.grown.push(grown)
    }
  }
  for (const { cpu, grown, name } of results) {
    const ratio = median(cpu) / median(results[0]!.cpu)
    yield* Console.log(
      `${name}: ${median(cpu).toFixed(1)} us (${ratio.toFixed(2)}), ${
        median(grown).toFixed(0)
      } bytes into the old generation`
    )
  }
})

const directory = fs.mkdtempSync(path.join(os.tmpdir(), "gateway-reads-"))
Effect.scoped(main).pipe(
  Effect.provide(LocalPostgres.layer({ dataDirectory: directory })),
  Effect.ensuring(Effect.sync(() => fs.rmSync(directory, { recursive: true, force: true }))),
  NodeRuntime.runMain
)
