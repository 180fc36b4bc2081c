/** Logs and traces of a process, as the environment configures them. */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Formatter from "effect/Formatter"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Otlp from "effect/observability/Otlp"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import * as Option from "effect/Option"
import * as References from "effect/References"
import { styleText } from "node:util"
import { InvalidSetting } from "../../domain/InvalidSetting.ts"
import { visible } from "../../domain/VisibleText.ts"

interface ServiceName {
  readonly serviceName: string
  readonly serviceVersion?: string
}

/** Exports spans to OTEL_EXPORTER_OTLP_ENDPOINT. Without it, no spans are created. */
const Tracing = (resource: ServiceName) =>
  Layer.unwrap(
    Effect.map(
      Config.option(Config.String("OTEL_EXPORTER_OTLP_ENDPOINT")),
      Option.match({
        // Each statement reads the clock for its span, also if no span is created.
        onNone: () =>
          Layer.merge(
            Layer.succeed(References.TracerEnabled, false),
            Layer.succeed(References.TracerTimingEnabled, false)
          ),
        onSome: (baseUrl) =>
          Otlp.layer({ baseUrl, resource }).pipe(
            Layer.provide(OtlpSerialization.layerJson),
            Layer.provide(FetchHttpClient.layer)
          )
      })
    )
  )

/** LOG_LEVEL in upper or lower case: operators write `debug`, Effect names it `Debug`. */
const logLevel = Effect.gen(function*() {
  const text = yield* Config.String("LOG_LEVEL").pipe(Config.withDefault("Info"))
  const level = LogLevel.values.find((level) => level.toLowerCase() === text.toLowerCase())
  return level ?? (yield* new InvalidSetting({ message: `LOG_LEVEL must be one of ${LogLevel.values.join(", ")}` }))
})

const levelStyles: Readonly<Record<string, "red" | "yellow">> = { FATAL: "red", ERROR: "red", WARN: "yellow" }

/** A value without quotes if it can stand alone. */
const valueText = (value: unknown): string =>
  typeof value === "string" && /^[^\s"=]+$/u.test(value) ? value : Formatter.formatJson(value)

/**
 * A line for people: time of day (UTC), level, message, and what is annotated. A cause follows on lines of its own. Text of a provider cannot
 * drive the terminal.
 */
export const terminalLine = Logger.map(
  Logger.formatStructured,
  ({ annotations, cause, level, message, spans, timestamp }) => {
    const texts = [message].flat().map((part) => typeof part === "string" ? part : valueText(part))
    const values = Object.entries(annotations).map(([name, value]) => `${name}=${valueText(value)}`)
    const times = Object.entries(spans).map(([name, milliseconds]) => `${name}=${milliseconds}ms`)
    const style = levelStyles[level]
    const padded = level.padEnd(5)
    return [
      timestamp.slice(11, 23),
      style === undefined ? padded : styleText(style, padded, { stream: process.stderr }),
      ...[...texts, ...values, ...times].map(visible)
    ].join(" ") + (cause === undefined ? "" : `\n${cause.split("\n").map(visible).join("\n")}`)
  }
)

/** Logs to standard error: for people on a terminal, else as JSON lines. */
const Logging = Layer.mergeAll(
  Logger.layer([Logger.withConsoleError(process.stderr.isTTY ? terminalLine : Logger.formatJson)]),
  Layer.succeed(References.LogToStderr, true),
  Layer.effect(References.MinimumLogLevel, logLevel)
)

/** LOG_LEVEL, and OTEL_EXPORTER_OTLP_ENDPOINT with the name of the service in its traces. */
export const Observability = (service: ServiceName) => Tracing(service).pipe(Layer.provideMerge(Logging))
