/** Connections to the database, by pool. */
import type * as Context from "effect/Context"
import type * as Layer from "effect/Layer"
import { countsReference, layerOf, memoize, type Series } from "./Series.ts"

const families = {
  connections: { name: "gateway_db_pool_connections", help: "Open connections to the database, by pool." },
  inUse: {
    name: "gateway_db_pool_connections_in_use",
    help:
      "Connections that run a statement or a transaction, by pool. In the pools of the readers, statements share them."
  },
  waiting: {
    name: "gateway_db_pool_waiting",
    help: "Statements and transactions that wait for a connection, by pool. Connecting is included."
  },
  errors: {
    name: "gateway_db_pool_errors_total",
    help: "Failures to get a connection, and connections lost during a statement, by pool."
  },
  moved: {
    name: "gateway_db_standby_reads_moved_total",
    help: "Reads that went to the primary in place of a standby, by reason."
  }
}

/** Reads that went to the primary in place of a standby. */
export class MovedReads {
  /** The standby had not replayed the index in time. */
  behind = 0
  /** It could not be reached, or did not answer the statement. */
  failed = 0
  /** It was left alone after an earlier read. */
  resting = 0
}

export class PoolCounts {
  connections = 0
  inUse = 0
  waiting = 0
  errors = 0
  /** When a statement last ended without a connection, in milliseconds of `performance.now()`. */
  gaveUpAt = -Infinity
}

/** Milliseconds for which a pool counts as exhausted after that. Requests that began together reach their deadlines together. */
const recently = 1000

/** The counts of the pools of a process. Equal names share one. */
class PoolsCounts {
  readonly pool: (name: string) => PoolCounts
  readonly #named = new Map<string, PoolCounts>()
  /** From standbys of all pools. */
  readonly movedReads = new MovedReads()

  constructor(series: Series) {
    this.pool = memoize((name) => {
      const counts = new PoolCounts()
      const labels = { pool: name }
      series.gauge(families.connections, () => counts.connections, labels)
      series.gauge(families.inUse, () => counts.inUse, labels)
      series.gauge(families.waiting, () => counts.waiting, labels)
      series.readCounter(families.errors, () => counts.errors, labels)
      return counts
    }, this.#named)
    for (const reason of ["behind", "failed", "resting"] as const) {
      series.readCounter(families.moved, () => this.movedReads[reason], { reason })
    }
  }

  /** The pools in which statements wait for a connection, or gave up waiting a moment ago. */
  exhausted(): ReadonlyArray<string> {
    const since = performance.now() - recently
    return [...this.#named].filter(([, { gaveUpAt, waiting }]) => waiting > 0 || gaveUpAt > since).map(([name]) => name)
  }
}

/** Null: connections are not counted. */
export const PoolMetrics: Context.Reference<PoolsCounts | null> = countsReference("PoolMetrics")

export type PoolMetrics = PoolsCounts

/** Counts connections, and registers the series. */
export const layer: Layer.Layer<never> = layerOf(PoolMetrics, (series) => new PoolsCounts(series))
