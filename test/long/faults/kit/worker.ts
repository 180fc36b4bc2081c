/** A worker as in a deployment, in a process of its own, that can be ordered to crash. Ends with 0 after SIGTERM. */
import { NodeCrypto, NodeRuntime } from "@effect/platform-node"
import { Cause, Duration, Effect, Exit, Layer, Logger, References, Schema } from "effect"
import type { HttpClient } from "effect/http"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import { Database } from "../../../../src/node/postgres/Database.ts"
import { PgAcceptanceSignal } from "../../../../src/node/postgres/PgAcceptanceSignal.ts"
import { WorkerPool } from "../../../../src/node/postgres/Pools.ts"
import { SubmissionQueue } from "../../../../src/services/SubmissionQueue.ts"
import * as SandboxProvider from "../../../../src/submission/http/SandboxProvider.ts"
import { ProviderAdapter } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../../../src/submission/providers/Providers.ts"
import { SubmissionPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import * as Submission from "../../../../src/submission/SubmissionProcesses.ts"
import { banks } from "./Banks.ts"
import { crashingProvider, layerCrashingQueue, makeStriker, tell } from "./CrashPoints.ts"
import { mistakes } from "./Mistakes.ts"
import { configVariable, policy, windows, WorkerConfig } from "./Plan.ts"

const config = Schema.decodeSync(WorkerConfig)(process.env[configVariable] ?? "")
const striker = makeStriker()

const connection = {
  host: "127.0.0.1",
  port: config.databasePort,
  username: config.username,
  database: config.database
}

const Queue = layerCrashingQueue(striker, connection).pipe(
  Layer.provide(SubmissionQueue.layer),
  Layer.merge(PgAcceptanceSignal),
  Layer.provide(WorkerPool),
  Layer.provide([
    Layer.succeed(Database, { isEmbedded: false, dataDirectory: null, connection }),
    NodeCrypto.layerDigest
  ])
)

const baseUrl = `http://127.0.0.1:${config.sandboxPort}`

const crashing = (adapter: Layer.Layer<ProviderAdapter, never, HttpClient.HttpClient>) =>
  Layer.effect(
    ProviderAdapter,
    Effect.map(ProviderAdapter, (provider) => {
      // Each worker reaches the bank by a proxy of its own.
      const crashing = crashingProvider(striker, { ...provider, keyIn: "by any proxy" })
      return config.mistake === null ? crashing : mistakes[config.mistake].make(crashing)
    })
  ).pipe(Layer.provide(adapter))

const sandboxProvider = (window: number | null) =>
  crashing(SandboxProvider.layer({
    baseUrl,
    ...window !== null && { account: "sandbox", notFoundIsFinalAfter: Duration.millis(window) }
  }))

const Adapters = Providers.layer(
  config.bank === null
    ? { careful: sandboxProvider(windows.careful), windowed: sandboxProvider(windows.windowed) }
    : { [config.bank]: crashing(banks[config.bank].adapter(baseUrl, config.keys)) }
)

const Work = Layer.effectDiscard(Effect.sync(() => tell({ _tag: "Ready" }))).pipe(
  Layer.provide(Submission.layer),
  Layer.provide(Adapters),
  Layer.provide(
    ProviderHttpClient.layer({ connections: policy.concurrency * 2, connectTimeout: policy.attemptTimeout })
  ),
  Layer.provide(Queue),
  Layer.provide(Layer.succeed(SubmissionPolicy, policy))
)

Layer.launch(Work).pipe(
  Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Effect.logError("Could not work", cause)),
  // The run counts fatal log lines, so that a loop that died is noticed.
  Effect.provideService(References.UnhandledLogLevel, "Fatal"),
  Effect.provide(Logger.layer([Logger.withConsoleError(Logger.formatJson)])),
  (program) =>
    NodeRuntime.runMain(program, {
      // The standard output is for messages to the parent.
      disableErrorReporting: true,
      teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
    })
)
