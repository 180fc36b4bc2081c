/**
 * Requests of the public listener: by route, method, status and code. Requests that wait for a change, with the reads of the change
 * feed for them. Verifications of credentials, by outcome.
 */
import type * as Context from "effect/Context"
import type * as Layer from "effect/Layer"
import {
  type Count,
  countEach,
  countsReference,
  type Distribution,
  layerOf,
  memoize,
  secondsBounds,
  type Series
} from "./Series.ts"

const requests = {
  name: "gateway_http_requests_total",
  help:
    "Requests that ended, by template of the route, method, status and problem code. Status 499: the client left before"
    + " the end of the response."
}
const duration = {
  name: "gateway_http_request_duration_seconds",
  help:
    "Time from the arrival of a request to the end of its response. Requests that waited for a change, and event streams,"
    + " are left out."
}
const inFlight = {
  name: "gateway_http_requests_in_flight",
  help: "Requests without a complete response. Requests that wait for a change are included."
}
const refused = {
  name: "gateway_http_requests_refused_total",
  help:
    "Requests refused without being read in full: too many run, of all clients or of one, too many bodies are on their way, a"
    + " quota is used up, or the shutdown has begun."
}
const connections = { name: "gateway_http_connections", help: "Open connections of the public listener." }
const dropped = {
  name: "gateway_http_connections_dropped_total",
  help: "Connections closed at once because MAX_CONNECTIONS were open."
}

/** Why the gateway refused a request that it could have read. */
const reasons = ["saturated", "client_saturated", "body_saturated", "rate_limited", "draining"] as const
type RefusalReason = typeof reasons[number]

/** Methods that have series of their own. All others share one. */
const methods: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])

/** Status of a request whose client left before the end of the response. nginx has the same. */
const clientLeft = 499

/** The series of a route and method. */
class MethodSeries {
  readonly duration: Distribution
  /** By status, and by status and code of problems. */
  readonly #counts = new Map<number | string, Count>()
  readonly #series: Series
  readonly #labels: { readonly route: string; readonly method: string }

  constructor(series: Series, route: string, method: string) {
    this.#series = series
    this.#labels = { route, method }
    this.duration = series.histogram(duration, secondsBounds, this.#labels)
  }

  count(status: number, code: string | null): void {
    const key = code === null ? status : `${status} ${code}`
    const count = this.#counts.get(key)
      ?? this.#series.counter(requests, { ...this.#labels, status: String(status), code: code ?? "none" })
    count.value++
    this.#counts.set(key, count)
  }
}

/** The series of a route, by method. A client may send any, so only those with series of their own are keys. */
class RouteSeries {
  readonly of: (method: string) => MethodSeries

  constructor(series: Series, template: string) {
    const known = memoize((method: string) => new MethodSeries(series, template, method))
    this.of = (method) => known(methods.has(method) ? method : "other")
  }
}

/** A request under way. The parts that answer it note its route and its problem. */
interface Exchange {
  readonly method: string
  /** The request's target. */
  readonly target: string
  /** Milliseconds of `performance.now()`. */
  readonly startedAt: number
  /** Null: the router has found none so far. */
  route: RouteSeries | null
  /** Code of the problem that answers the request. Null: it is no problem. */
  code: string | null
  /** It waited for a change, or its response is an event stream. Its duration says nothing about the gateway. */
  hasWaited: boolean
}

const exchangeKey: unique symbol = Symbol("financial-agents-gateway/metrics/Exchange")

/** The exchange of a request object, if it is counted. */
export const exchangeOf = (request: object): Exchange | undefined =>
  (request as { readonly [exchangeKey]?: Exchange })[exchangeKey]

/** Leaves the request out of the durations. Must be called before the request waits: its client may leave meanwhile. */
export const noteWait = (request: object): void => {
  const exchange = exchangeOf(request)
  if (exchange !== undefined) exchange.hasWaited = true
}

/** The counts of the public listener. */
class HttpCounts {
  inFlight = 0
  /** The public listener sets it. */
  openConnections: () => number = () => 0
  /** Finds the path of an endpoint, in the router's syntax, for a request that the router has not seen. The edge sets it. */
  templateOf: (target: string) => string | undefined = () => undefined
  readonly dropped: Count
  readonly #refused: Readonly<Record<RefusalReason, Count>>
  /** The series of a route. `template` is its path in the router's syntax, such as `/v1/operations/:id`. */
  readonly route: (template: string) => RouteSeries
  readonly #unmatched: RouteSeries

  constructor(series: Series) {
    this.route = memoize((template) => new RouteSeries(series, template))
    this.#unmatched = new RouteSeries(series, "unmatched")
    this.dropped = series.counter(dropped)
    this.#refused = countEach(reasons, (reason) => series.counter(refused, { reason }))
    series.gauge(inFlight, () => this.inFlight)
    series.gauge(connections, () => this.openConnections())
  }

  /** Starts to count a request, and ties the exchange to the request object. */
  start(request: object, method: string, target: string): Exchange {
    this.inFlight++
    const exchange: Exchange = {
      method,
      target,
      startedAt: performance.now(),
      route: null,
      code: null,
      hasWaited: false
    }
    // The type of the request has no place for it. A `WeakMap` would keep dead entries until a major collection.
    const holder: { [exchangeKey]?: Exchange } = request
    holder[exchangeKey] = exchange
    return exchange
  }

  /** Counts the request when its response has ended. Null: the client left before. */
  end({ code, hasWaited, method, route, startedAt, target }: Exchange, status: number | null): void {
    this.inFlight--
    const series = (route ?? this.#unrouted(target)).of(method)
    if (status === null) series.count(clientLeft, null)
    else series.count(status, code)
    if (!hasWaited) series.duration.record((performance.now() - startedAt) / 1000)
  }

  #unrouted(target: string): RouteSeries {
    const template = this.templateOf(target)
    return template === undefined ? this.#unmatched : this.route(template)
  }

  /** Counts an answer to bytes that are no request. They have no method and no duration. */
  unreadable(status: number, code: string): void {
    this.#unmatched.of("other").count(status, code)
  }

  refuse(reason: RefusalReason): void {
    this.#refused[reason].value++
  }
}

/** The counts of a process. Null: requests are not counted. */
export const HttpMetrics: Context.Reference<HttpCounts | null> = countsReference("HttpMetrics")

export type HttpMetrics = HttpCounts

/** Counts requests, and registers the series. */
export const layer: Layer.Layer<never> = layerOf(HttpMetrics, (series) => new HttpCounts(series))

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
export const feedLayer: Layer.Layer<never> = layerOf(FeedMetrics, (series) => new FeedCounts(series))

const verifications = {
  name: "gateway_verifications_total",
  help:
    "Verified credentials of requests, by outcome. Unavailable: the authorization server or the database did not answer."
}

const outcomes = ["verified", "refused", "unavailable"] as const

/** A count for each outcome. */
type VerificationCounts = Readonly<Record<typeof outcomes[number], Count>>

/** Null: verifications are not counted. */
export const VerificationMetrics: Context.Reference<VerificationCounts | null> = countsReference("VerificationMetrics")

export type VerificationMetrics = VerificationCounts | null

/** Counts verifications, and registers the series. */
export const verificationLayer: Layer.Layer<never> = layerOf(
  VerificationMetrics,
  ({ counter }) => countEach(outcomes, (outcome) => counter(verifications, { outcome }))
)
