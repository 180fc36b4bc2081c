/** The process itself, under the names that Prometheus' client libraries use. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { makeSeries } from "./Series.ts"

const families = {
  memory: { name: "process_resident_memory_bytes", help: "Resident memory of the process." },
  cpu: { name: "process_cpu_seconds_total", help: "CPU time of the process, of the user and the system." },
  start: { name: "process_start_time_seconds", help: "When the process started, in seconds since the epoch." },
  delay: {
    name: "nodejs_eventloop_delay_seconds",
    help: "By how much the event loop ran late, by quantile, in the last complete period of at least 10 seconds."
  },
  build: { name: "gateway_build_info", help: "Always 1. The label has the version of the program." }
}

/** Quantiles of the delay of the event loop. */
export const quantiles: ReadonlyArray<number> = [0.5, 0.9, 0.99]

/** How the platform tells about the process. */
export interface ProcessSource {
  readonly version: string
  readonly residentMemoryBytes: () => number
  readonly cpuSeconds: () => number
  /** Seconds since the epoch. */
  readonly startedAt: number
  /** Seconds. `quantile` is between 0 and 1. */
  readonly eventLoopDelay: (quantile: number) => number
}

export const layer = (source: ProcessSource): Layer.Layer<never> =>
  Layer.effectDiscard(Effect.map(makeSeries, ({ gauge, readCounter }) => {
    gauge(families.memory, source.residentMemoryBytes)
    readCounter(families.cpu, source.cpuSeconds)
    gauge(families.start, () => source.startedAt)
    for (const quantile of quantiles) {
      gauge(families.delay, () => source.eventLoopDelay(quantile), { quantile: String(quantile) })
    }
    gauge(families.build, () => 1, { version: source.version })
  }))
