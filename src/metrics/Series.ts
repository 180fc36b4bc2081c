/**
 * Series of metrics whose values live in plain numbers. An event costs an addition. A scrape and an export read the numbers through
 * `MetricRegistry`.
 *
 * The room `metrics`: the counts and figures of all rooms. Read this file first.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"

/** Labels of a series. Their values must come from a small set that the gateway knows, never from a request. */
export type Labels = Readonly<Record<string, string>>

/** What a family of series counts or measures. */
export interface Family {
  /** With its unit, and with `_total` for counters. */
  readonly name: string
  readonly help: string
}

/** A number that only grows. */
export class Count {
  value = 0
}

/** Upper bounds of the buckets, ascending. */
type Bounds = ReadonlyArray<number>

/** Counts of values by size. */
export class Distribution {
  readonly #bounds: Bounds
  /** One for each bound, and one for larger values. */
  readonly #counts: Float64Array
  #count = 0
  #sum = 0
  #min = 0
  #max = 0

  constructor(bounds: Bounds) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  record(value: number): void {
    const bounds = this.#bounds
    let at = 0
    while (at < bounds.length && value > bounds[at]!) at++
    this.#counts[at]!++
    if (this.#count === 0 || value < this.#min) this.#min = value
    if (this.#count === 0 || value > this.#max) this.#max = value
    this.#count++
    this.#sum += value
  }

  state(): Metric.HistogramState {
    let below = 0
    const buckets = this.#bounds.map((bound, at): [number, number] => [bound, below += this.#counts[at]!])
    return { buckets, count: this.#count, sum: this.#sum, min: this.#min, max: this.#max }
  }
}

const ignore = () => {}

/** Registers series. */
export interface Series {
  /** A counter, from 0. */
  readonly counter: (family: Family, labels?: Labels) => Count
  /** A counter that another part keeps. */
  readonly readCounter: (family: Family, read: () => number, labels?: Labels) => void
  /** A value that may go down. It is read when the metrics are. */
  readonly gauge: (family: Family, read: () => number, labels?: Labels) => Metric.Registration
  readonly histogram: (family: Family, bounds: Bounds, labels?: Labels) => Distribution
}

/**
 * Registers in the `MetricRegistry` of the context. Series stay when a scope closes, because the last export of a process comes
 * after that. A series of the same name and labels replaces the one before.
 */
export const makeSeries: Effect.Effect<Series> = Effect.contextWith((context: Context.Context<never>) => {
  const register = <Input, State>(metric: Metric.Metric<Input, State>, get: () => State): Metric.Registration =>
    Metric.registerUnsafe(metric, context, { get, update: ignore, modify: ignore })

  const readCounter: Series["readCounter"] = ({ help, name }, read, labels = {}) => {
    const metric = Metric.counter(name, { description: help, attributes: labels, incremental: true })
    register(metric, () => ({ count: read(), incremental: true }))
  }

  return Effect.succeed({
    counter: (family, labels) => {
      const count = new Count()
      readCounter(family, () => count.value, labels)
      return count
    },
    readCounter,
    gauge: ({ help, name }, read, labels = {}) =>
      register(Metric.gauge(name, { description: help, attributes: labels }), () => ({ value: read() })),
    histogram: ({ help, name }, bounds, labels = {}) => {
      const distribution = new Distribution(bounds)
      const metric = Metric.histogram(name, { description: help, attributes: labels, boundaries: bounds })
      register(metric, () => distribution.state())
      return distribution
    }
  })
})

/** Makes the value of each key once, and keeps it in `made`: a `WeakMap` lets it go with its key. */
export const memoize = <K, V>(
  make: (key: K) => V,
  made: { readonly get: (key: K) => V | undefined; readonly set: (key: K, value: V) => unknown } = new Map<K, V>()
): (key: K) => V =>
(key) => {
  const known = made.get(key)
  if (known !== undefined) return known
  const value = make(key)
  made.set(key, value)
  return value
}

/** A count for each outcome. */
export const countEach = <Outcome extends string>(
  outcomes: ReadonlyArray<Outcome>,
  count: (outcome: Outcome) => Count
) =>
  // The cast: the entries have all keys.
  Object.fromEntries(outcomes.map((outcome) => [outcome, count(outcome)])) as Record<Outcome, Count>

/** Counts of a process by the name of their file. Null: nothing is counted. */
export const countsReference = <A>(name: string): Context.Reference<A | null> =>
  Context.Reference<A | null>(`financial-agents-gateway/metrics/${name}`, { defaultValue: () => null })

/** Counts, and registers the series. */
export const layerOf = <A>(
  reference: Context.Reference<A | null>,
  make: (series: Series) => A
): Layer.Layer<never> => Layer.effect(reference, Effect.map(makeSeries, make))

/** Bounds of durations in seconds, from one millisecond to a minute. */
export const secondsBounds: Bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
