/**
 * A provider for development and tests: an HTTP server that records every submission it receives, and injects faults.
 * `Protocol` documents its protocol, `Faults` its faults, and `SandboxServer` its control plane.
 *
 * The room `sandbox`: a provider to develop against, in the form of any bank. Read this file first.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { type Arrival, makeArrivals } from "./BankRequests.ts"
import { bankDialects } from "./banks/bankDialects.ts"
import type { Answer, Demand, Dialect, RequestHead, Saying, Submission } from "./Dialect.ts"
import { FaultSettings } from "./Faults.ts"
import { makeMemoryRecord, openFileRecord, type Receipt, type RecordFailed } from "./Record.ts"
import { sandboxDialect } from "./SandboxDialect.ts"
import { defaultMix, type Instruction, type KnownSubmission, OutcomeMix } from "./SandboxOutcome.ts"
import { type CannotListen, makeSandboxServer, MutualTls, type Switches } from "./SandboxServer.ts"
import type { Truth } from "./SubmissionEntries.ts"
import { makeSubmissions } from "./Submissions.ts"
import { makeWebhooks, WebhookSettings } from "./Webhooks.ts"

export type {
  Answer,
  Arrival,
  CannotListen,
  Demand,
  Dialect,
  Instruction,
  KnownSubmission,
  RecordFailed,
  RequestHead,
  Saying,
  Submission
}

const PortNumber = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 65_535 }))

/** All options are optional. */
export const SandboxOptions = Schema.Struct({
  /** Address of the service, 127.0.0.1 by default. The control port is always on 127.0.0.1. */
  host: Schema.optionalKey(Schema.String),
  /** 0, the default, takes a free port. */
  port: Schema.optionalKey(PortNumber),
  /** 0, the default, takes a free port. */
  controlPort: Schema.optionalKey(PortNumber),
  /** File of the record. Without it the record is in memory, and lost when the scope closes. */
  record: Schema.optionalKey(Schema.String),
  /** Decides outcomes and faults that are not instructed. The same seed gives the same decisions. */
  seed: Schema.optionalKey(Schema.String),
  /** Name of the bank whose form it has: `docs/banks.md`. Default: that of `Protocol`. */
  bank: Schema.optionalKey(Schema.Literals(Object.keys(bankDialects))),
  /** The switches at the start, all off by default. */
  faults: Schema.optionalKey(FaultSettings),
  /** Outcomes that the seed chooses for submissions without an instruction. */
  mix: Schema.optionalKey(OutcomeMix),
  /** Where webhooks go, and the secret that signs them. Without it none are sent. */
  webhooks: Schema.optionalKey(WebhookSettings),
  /** Mutual TLS of the service. Without it the service has no TLS. */
  tls: Schema.optionalKey(MutualTls)
})
export type SandboxOptions = typeof SandboxOptions.Type

const decodeOptions = Schema.decodeUnknownEffect(SandboxOptions, { onExcessProperty: "error", errors: "all" })

/** The running sandbox provider. */
export class Sandbox extends Context.Service<Sandbox, {
  /** Base URL of the service, without a trailing slash. */
  readonly url: string
  /** Base URL of the control port, which never refuses a connection. */
  readonly controlUrl: string
  /** Every receipt so far, in order. */
  readonly record: Effect.Effect<ReadonlyArray<Receipt>, RecordFailed>
  /** When the last submissions and status reads arrived, in order: 100,000 of them at most. */
  readonly arrivals: Effect.Effect<ReadonlyArray<Arrival>>
  /** The true state of a key, and how often it was received. */
  readonly truth: (key: string) => Effect.Effect<Truth>
  readonly faults: Effect.Effect<FaultSettings>
  /** Replaces all switches. Fails when `refuse_connection` had closed the port and it cannot be opened again. */
  readonly setFaults: (settings: FaultSettings) => Effect.Effect<void, CannotListen>
}>()("financial-agents-gateway/sandbox/Sandbox") {
  /** Listens until the scope closes. Dies when an option is out of range. The dialect is by default that of the option `bank`. */
  static readonly layer = (
    options: SandboxOptions = {},
    given?: Dialect
  ): Layer.Layer<Sandbox, RecordFailed | CannotListen> =>
    Layer.effect(
      Sandbox,
      Effect.gen(function*() {
        const {
          bank,
          controlPort = 0,
          faults = {},
          host = "127.0.0.1",
          mix = defaultMix,
          port = 0,
          record,
          seed = "sandbox",
          tls,
          webhooks: receiver
        } = yield* Effect.orDie(decodeOptions(options))
        const dialect = given ?? bankDialects[bank ?? ""] ?? sandboxDialect
        const kept = record === undefined ? makeMemoryRecord() : yield* openFileRecord(record)
        const switches: Switches = { settings: faults }
        const faultsNow = () => switches.settings
        const webhooks = receiver && (yield* makeWebhooks({ ...receiver, seed, faults: faultsNow, dialect }))
        const submissions = yield* makeSubmissions({ dialect, seed, mix, record: kept, faults: faultsNow, webhooks })
        const arrivals = makeArrivals(seed, faultsNow)
        const server = yield* makeSandboxServer({
          dialect,
          host,
          port,
          controlPort,
          seed,
          switches,
          submissions,
          arrivals,
          record: kept,
          tls
        })
        return {
          url: `${tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${server.port}`,
          controlUrl: `http://127.0.0.1:${server.controlPort}`,
          record: kept.receipts,
          arrivals: Effect.sync(arrivals.all),
          truth: submissions.truth,
          faults: Effect.sync(() => switches.settings),
          setFaults: server.setFaults
        }
      })
    )
}
