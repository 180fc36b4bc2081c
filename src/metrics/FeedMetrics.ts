/**
 * Requests that wait for a change, and the reads of the change feed for them.
 */
import type * as Context from "effect/Context"
import type * as Layer from "effect/Layer"
import { type Count, countsReference, layerOf, type Series } from "./Series.ts"

const families = {
  waiters: { name: "gateway_waiters", help: "Requests that wait for a change of an operation." },
  reads: {
    name: "gateway_feed_reads_total",
    help: "Reads of the change feed for the requests that wait, by outcome. None are made while no request waits."
  },
  changes: { name: "gateway_feed_changes_total", help: "Changes that these reads returned." }
}

/** The counts of the requests that wait. */
class FeedCounts {
  readonly ok: Count
  readonly failed: Count
  readonly changes: Count
  readonly #watchers = new Set<() => number>()

  constructor({ counter, gauge }: Series) {
    this.ok = counter(families.reads, { outcome: "ok" })
    this.failed = counter(families.reads, { outcome: "failed" })
    this.changes = counter(families.changes)
    gauge(families.waiters, () => [...this.#watchers].reduce((sum, waiters) => sum + waiters(), 0))
  }

  /** Adds the waiters of a watcher. A process may have several watchers. */
  add(waiters: () => number): void {
    this.#watchers.add(waiters)
  }

  remove(waiters: () => number): void {
    this.#watchers.delete(waiters)
  }
}

/** Null: waiters and reads are not counted. */
export const FeedMetrics: Context.Reference<FeedCounts | null> = countsReference("FeedMetrics")

/** Counts waiters and reads, and registers the series. */
export const layer: Layer.Layer<never> = layerOf(FeedMetrics, (series) => new FeedCounts(series))
