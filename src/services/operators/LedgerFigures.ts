/**
 * Figures about the whole ledger, for metrics, the command `status` and the console. 0011_operation_counts.sql tells how operations
 * are counted.
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { isUnsentFailure } from "../../domain/GatewayFailures.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import type { OperationState } from "../../domain/Operation.ts"
import type { FiguresByCondition, FlowPoint, LedgerFiguresNow } from "../../domain/operators/FiguresForm.ts"
import { failedStatement, flowStatement, nowStatement, standingStatement } from "../sql/operators/figureStatements.ts"
import { orUnavailable, type StoreUnavailable } from "../StoreUnavailable.ts"

export class LedgerFigures extends Context.Service<LedgerFigures, {
  /** One statement. Its cost does not grow with the number of operations. */
  readonly now: Effect.Effect<LedgerFiguresNow, StoreUnavailable>
  /**
   * The last `hours` (1 to 168), oldest first: by minute up to 3 hours, otherwise by hour. Intervals in which nothing of a provider
   * changed are left out, apart from the first one.
   */
  readonly flow: (hours: number) => Effect.Effect<ReadonlyArray<FlowPoint>, StoreUnavailable>
  /** `now`, with the one condition of each operation, questions to the providers, and the failures of a day. The role of `serve` may not read them. */
  readonly nowByCondition: Effect.Effect<FiguresByCondition, StoreUnavailable>
}>()("financial-agents-gateway/services/operators/LedgerFigures") {
  /** Use a pool without the planner settings of the readers: the statements aggregate. */
  static readonly layer: Layer.Layer<LedgerFigures, never, SqlClient.SqlClient> = Layer.effect(
    LedgerFigures,
    Effect.suspend(() => make)
  )
}

/** `LedgerFiguresNow` with times in milliseconds since the epoch. */
type NowRow = { readonly [K in keyof LedgerFiguresNow]: InMilliseconds<LedgerFiguresNow[K]> }

type InMilliseconds<A> = A extends DateTime.Utc ? number
  : A extends ReadonlyArray<infer Item> ? ReadonlyArray<{ readonly [K in keyof Item]: TimeInMilliseconds<Item[K]> }>
  : A

type TimeInMilliseconds<A> = A extends DateTime.Utc ? number : A

const time = (milliseconds: number): DateTime.Utc => DateTime.makeUnsafe(milliseconds)

const toNow = (row: NowRow): LedgerFiguresNow => ({
  ...row,
  at: time(row.at),
  oldest: row.oldest.map((oldest) => ({ ...oldest, since: time(oldest.since) })),
  due: row.due.map((due) => ({ ...due, since: time(due.since) })),
  workers: row.workers.map((worker) => ({
    ...worker,
    started_at: time(worker.started_at),
    seen_at: time(worker.seen_at)
  }))
})

type Standing = FiguresByCondition["standing"][number]
type Claims = NonNullable<Standing["claims"]>
type StandingRow = Omit<Standing, "since" | "claims"> & {
  readonly since: number | null
  readonly claims: { readonly [K in keyof Claims]: TimeInMilliseconds<Claims[K]> } | null
}

const timeOrNull = (milliseconds: number | null) => milliseconds === null ? null : time(milliseconds)

const toStanding = ({ claims, since, ...row }: StandingRow): Standing => ({
  ...row,
  since: timeOrNull(since),
  ...claims === null ? {} : {
    claims: {
      count: claims.count,
      lost: claims.lost,
      first_end: timeOrNull(claims.first_end),
      last_end: timeOrNull(claims.last_end),
      next_at: timeOrNull(claims.next_at)
    }
  }
})

type Failures = FiguresByCondition["failed"][number]
type FailedRow = { readonly [K in "provider" | "code" | "count" | "since"]: TimeInMilliseconds<Failures[K]> }

/** Moves between two states in an interval. `at` is null before the first interval. No provider: nothing moved at all. */
type FlowRow =
  & { readonly start: number; readonly at: number | null }
  & ({
    readonly provider: ProviderName
    readonly from: OperationState | null
    readonly to: OperationState
    readonly count: number
  } | { readonly provider: null })

type Counts = Partial<Record<OperationState, number>>

/** Puts together the points of rows in the order of their intervals. */
const toFlow = (rows: ReadonlyArray<FlowRow>): ReadonlyArray<FlowPoint> => {
  const points = new Map<string, FlowPoint & { readonly entered: Counts; standing: Counts }>()
  const standing = new Map<ProviderName, Counts>()
  for (const row of rows) {
    if (row.provider === null) continue
    const { count, from, provider, start, to } = row
    const now = standing.get(provider) ?? {}
    standing.set(provider, now)
    now[to] = (now[to] ?? 0) + count
    if (from !== null) now[from] = (now[from] ?? 0) - count
    const at = row.at ?? start
    const key = `${at} ${provider}`
    const point = points.get(key) ?? { at: time(at), provider, entered: {}, standing: {} }
    points.set(key, point)
    if (row.at !== null) point.entered[to] = (point.entered[to] ?? 0) + count
    point.standing = { ...now }
  }
  for (const point of points.values()) {
    for (const state of Object.keys(point.standing) as ReadonlyArray<OperationState>) {
      if (point.standing[state] === 0) delete point.standing[state]
    }
  }
  return [...points.values()]
}

const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient

  const now = Effect.map(orUnavailable(sql.unsafe<NowRow>(nowStatement)), ([row]) => toNow(row!)).pipe(
    Effect.withSpan("LedgerFigures.now")
  )

  const nowByCondition = Effect.gen(function*() {
    const figures = yield* now
    const rows = yield* orUnavailable(sql.unsafe<StandingRow>(standingStatement))
    const failures = yield* orUnavailable(sql.unsafe<FailedRow>(failedStatement))
    return {
      ...figures,
      standing: rows.map(toStanding),
      failed: failures.map((row) => ({ ...row, since: time(row.since), unsent: isUnsentFailure(row.code) }))
    }
  })

  const flow = Effect.fn("LedgerFigures.flow")((hours: number) =>
    Effect.map(
      orUnavailable(sql.unsafe<FlowRow>(flowStatement, [hours, hours <= 3 ? "minute" : "hour"])),
      toFlow
    )
  )

  return LedgerFigures.of({ now, nowByCondition, flow })
})
