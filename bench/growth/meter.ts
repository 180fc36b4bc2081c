/** What the calls of a connection cost its backend. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { cpuNanosecondsOf } from "../shared/proc.ts"

/** Of one call. */
export interface Cost {
  /** Microseconds of CPU time of the backend. */
  readonly cpu: number
  /** Pages of 8 KiB that were in the buffers of PostgreSQL. */
  readonly hits: number
  /** Pages that were not. */
  readonly misses: number
  /** Bytes of WAL. */
  readonly wal: number
}

interface Counters {
  readonly hits: number
  readonly misses: number
  readonly wal: number
}

const counters = `
  SELECT sum(hits)::float8 AS hits, sum(reads)::float8 AS misses,
    (SELECT wal_bytes::float8 FROM pg_stat_get_backend_wal(pg_backend_pid())) AS wal
  FROM pg_stat_get_backend_io(pg_backend_pid()) WHERE object = 'relation'`

/** A backend reports its counters at most once a second, unless it is asked to. */
const readCounters = (sql: SqlClient.SqlClient) =>
  Effect.gen(function*() {
    yield* sql.unsafe("SELECT pg_stat_force_next_flush()")
    const [row] = yield* sql.unsafe<Counters>(counters)
    return row!
  })

/** The statements of `readCounters` cost this themselves. */
const ownCost = (sql: SqlClient.SqlClient) =>
  Effect.gen(function*() {
    const [before, after] = [yield* readCounters(sql), yield* readCounters(sql)]
    return { hits: after.hits - before.hits, misses: after.misses - before.misses, wal: after.wal - before.wal }
  })

/** Makes the function that runs calls on the only connection of the client, and yields the cost of one. */
export const makeMeter = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  const [backend] = yield* sql.unsafe<{ readonly pid: number }>("SELECT pg_backend_pid() AS pid")
  const own = yield* ownCost(sql)
  return <A, E>(calls: number, work: Effect.Effect<A, E>) =>
    Effect.gen(function*() {
      const before = yield* readCounters(sql)
      const cpu = cpuNanosecondsOf(backend!.pid)
      const result = yield* work
      const used = cpuNanosecondsOf(backend!.pid) - cpu
      const after = yield* readCounters(sql)
      const cost: Cost = {
        cpu: used / 1000 / calls,
        hits: Math.max(0, after.hits - before.hits - own.hits) / calls,
        misses: Math.max(0, after.misses - before.misses) / calls,
        wal: Math.max(0, after.wal - before.wal - own.wal) / calls
      }
      return { cost, result }
    })
})
