/**
 * The metrics of a process, and the admin listener that serves them.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as AdminServer from "../admin/AdminServer.ts"
import * as HttpMetrics from "../metrics/HttpMetrics.ts"
import { addressOfProcess, type AdminAddress } from "./AdminAddress.ts"
import * as AdminListener from "./AdminListener.ts"

/** Whether an exporter reads the metrics of this process (`Observability`). */
const isExported = Effect.map(Config.option(Config.String("OTEL_EXPORTER_OTLP_ENDPOINT")), Option.isSome)

const Counting = Layer.mergeAll(HttpMetrics.layer)

/**
 * Counts if the process has an admin listener, or exports its metrics. `first` is the address of the admin listener of the first
 * process. `more` are its routes beside `/metrics`.
 */
export const layer = <E = never, R = never>(first: AdminAddress | null, more?: AdminServer.AdminRoutes<E, R>) =>
  Layer.unwrap(Effect.map(isExported, (isOn) => {
    const admin = addressOfProcess(first)
    const Served = admin === null ? null : AdminServer.layer(more).pipe(Layer.provide(AdminListener.layer(admin)))
    const Counted = isOn || admin !== null ? Counting : Layer.empty
    return Layer.merge(Served ?? Layer.empty as Exclude<typeof Served, null>, Counted)
  }))
