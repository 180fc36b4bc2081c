/**
 * The metrics of a process, and the admin listener that serves them.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as FeedMetrics from "../../metrics/FeedMetrics.ts"
import * as HttpMetrics from "../../metrics/HttpMetrics.ts"
import * as LedgerMetrics from "../../metrics/LedgerMetrics.ts"
import * as PoolMetrics from "../../metrics/PoolMetrics.ts"
import * as ProcessMetrics from "../../metrics/ProcessMetrics.ts"
import * as SubmissionMetrics from "../../metrics/SubmissionMetrics.ts"
import * as VerificationMetrics from "../../metrics/VerificationMetrics.ts"
import * as AdminServer from "../../operator/AdminServer.ts"
import { LedgerFigures } from "../../services/LedgerFigures.ts"
import type { AdminAddress } from "../http/AdminAddress.ts"
import * as AdminListener from "../http/AdminListener.ts"
import { FiguresPool } from "../postgres/Pools.ts"
import { makeProcessSource } from "./processSource.ts"

/** Whether an exporter reads the metrics of this process (`Observability`). */
const isExported = Effect.map(Config.option(Config.String("OTEL_EXPORTER_OTLP_ENDPOINT")), Option.isSome)

/** Milliseconds. `Otlp.layer` exports as often. */
const exportInterval = 10_000

/** Reads the figures of the ledger as often as the exporter sends them. */
const RefreshForExport = Layer.effectDiscard(Effect.gen(function*() {
  const refresh = yield* LedgerMetrics.LedgerMetrics
  if (refresh !== null) {
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(refresh, Effect.sleep(exportInterval))))
  }
}))

/** Reads the figures of the ledger. */
const Figures = LedgerMetrics.layer(LedgerFigures.use(({ now }) => now)).pipe(
  Layer.provide(Layer.provide(LedgerFigures.layer, FiguresPool))
)

const Counting = Figures.pipe(
  Layer.provideMerge(Layer.mergeAll(
    HttpMetrics.layer,
    VerificationMetrics.layer,
    PoolMetrics.layer,
    SubmissionMetrics.layer,
    FeedMetrics.layer,
    Layer.unwrap(Effect.sync(() => ProcessMetrics.layer(makeProcessSource())))
  ))
)

/**
 * Counts if the process has an admin listener, or exports its metrics. `more` are the listener's routes beside `/metrics`.
 */
export const layer = <E = never, R = never>(admin: AdminAddress | null, more?: AdminServer.AdminRoutes<E, R>) =>
  Layer.unwrap(Effect.map(isExported, (isOn) => {
    const Served = admin === null ? null : AdminServer.layer(more).pipe(Layer.provide(AdminListener.layer(admin)))
    const Counted = isOn || admin !== null ? Counting : null
    return (Served ?? Layer.empty as Exclude<typeof Served, null>).pipe(
      Layer.merge(isOn ? RefreshForExport : Layer.empty),
      Layer.provideMerge(Counted ?? Layer.empty as Exclude<typeof Counted, null>)
    )
  }))
