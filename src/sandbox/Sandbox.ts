/**
 * A provider to develop and test against: a real HTTP server that keeps its own record of every submission that it
 * received, and misbehaves as told. `Protocol` says what it speaks, `Faults` how it misbehaves, `Control` how it is told.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { FaultSettings } from "./Faults.ts"
import { openFileRecord } from "./FileRecord.ts"
import { makeMemoryRecord } from "./MemoryRecord.ts"
import { CannotListen } from "./Port.ts"
import { type Receipt, RecordFailed } from "./Record.ts"
import { makeSandboxServer, type Switches } from "./SandboxServer.ts"
import { defaultMix, SettlementMix } from "./SettlementMix.ts"
import { makeSubmissions, type Truth } from "./Submissions.ts"

export { CannotListen, type Receipt, RecordFailed, type Truth }

const PortNumber = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65_535 }))

/** All of it may be left out. */
export const SandboxOptions = Schema.Struct({
  /** Address of the service; 127.0.0.1 unless told. The control port is always on 127.0.0.1. */
  host: Schema.optionalKey(Schema.String),
  /** 0, the default, takes one that is free. */
  port: Schema.optionalKey(PortNumber),
  controlPort: Schema.optionalKey(PortNumber),
  /** File of the record. Without it the record ends with the scope. */
  record: Schema.optionalKey(Schema.String),
  /** Decides everything that is not told. */
  seed: Schema.optionalKey(Schema.String),
  /** The switches to begin with; all off unless told. */
  faults: Schema.optionalKey(FaultSettings),
  /** What the seed makes of submissions that bring no instruction. */
  mix: Schema.optionalKey(SettlementMix)
})
export type SandboxOptions = typeof SandboxOptions.Type

const decodeOptions = Schema.decodeUnknownEffect(SandboxOptions, { onExcessProperty: "error", errors: "all" })

/** The sandbox provider, listening. */
export class Sandbox extends Context.Service<Sandbox, {
  /** Base URL of the service, without a slash at its end. */
  readonly url: string
  /** Base URL of the control port, which never refuses a connection. */
  readonly controlUrl: string
  /** Every receipt so far, in order. */
  readonly record: Effect.Effect<ReadonlyArray<Receipt>, RecordFailed>
  /** What is true of a key, and how often it was received. */
  readonly truth: (key: string) => Effect.Effect<Truth>
  readonly faults: Effect.Effect<FaultSettings>
  /** Replaces all switches. Fails when the port was given up by `refuse_connection` and cannot be had back. */
  readonly setFaults: (settings: FaultSettings) => Effect.Effect<void, CannotListen>
}>()("financial-agents-gateway/sandbox/Sandbox") {
  /** Listens until the scope closes. Dies when an option is out of its range. */
  static readonly layer = (options: SandboxOptions = {}): Layer.Layer<Sandbox, RecordFailed | CannotListen> =>
    Layer.effect(
      Sandbox,
      Effect.gen(function*() {
        const {
          controlPort = 0,
          faults = {},
          host = "127.0.0.1",
          mix = defaultMix,
          port = 0,
          record,
          seed = "sandbox"
        } = yield* Effect.orDie(decodeOptions(options))
        const kept = record === undefined ? makeMemoryRecord() : yield* openFileRecord(record)
        const switches: Switches = { settings: faults }
        const submissions = yield* makeSubmissions({ seed, mix, record: kept, faults: () => switches.settings })
        const server = yield* makeSandboxServer({ host, port, controlPort, seed, switches, submissions, record: kept })
        return {
          url: `http://${host.includes(":") ? `[${host}]` : host}:${server.port}`,
          controlUrl: `http://127.0.0.1:${server.controlPort}`,
          record: kept.receipts,
          truth: submissions.truth,
          faults: Effect.sync(() => switches.settings),
          setFaults: server.setFaults
        }
      })
    )
}
