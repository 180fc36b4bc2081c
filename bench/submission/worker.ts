/** A worker like that of `work`: the same layers, pool and policy. It logs errors; tracing is off. */
// oxlint-disable-next-line import/no-unassigned-import -- it is all that the module is for
import "effect/schema/SchemaJITCompiler/enable"
import { NodeCrypto, NodeRuntime } from "@effect/platform-node"
import { Effect, Layer, References } from "effect"
import * as ProviderHttpClient from "../../src/node/http/ProviderHttpClient.ts"
import { PgAcceptanceSignal } from "../../src/node/postgres/PgAcceptanceSignal.ts"
import { WorkerPool } from "../../src/node/postgres/Pools.ts"
import { SubmissionQueue } from "../../src/services/SubmissionQueue.ts"
import * as SandboxProvider from "../../src/submission/http/SandboxProvider.ts"
import { ProviderAdapter } from "../../src/submission/providers/ProviderAdapter.ts"
import { Providers } from "../../src/submission/providers/Providers.ts"
import { defaultPolicy } from "../../src/submission/SubmissionPolicy.ts"
import * as Submission from "../../src/submission/SubmissionProcesses.ts"
import { configuration, report } from "../shared/processes.ts"
import { now, provider, type WorkerConfig } from "./config.ts"
import { databaseAt } from "./pools.ts"

const { database, limit, listens, sandboxUrl, timed } = configuration<WorkerConfig>()

const options = { baseUrl: sandboxUrl, ...limit === undefined ? {} : { limit } }

const begun: Array<readonly [string, number]> = []
process.on("message", () => report({ begun }))

/** Notes when the adapter receives each operation. */
const Timed = Layer.effect(
  ProviderAdapter,
  Effect.map(SandboxProvider.make(options), (adapter) =>
    ProviderAdapter.of({
      ...adapter,
      submit: (operation, payload) =>
        Effect.suspend(() => {
          begun.push([operation.id, now()])
          return adapter.submit(operation, payload)
        })
    }))
)

const Queue = SubmissionQueue.layer.pipe(
  Layer.merge(listens ? PgAcceptanceSignal : Layer.empty),
  Layer.provide(WorkerPool),
  Layer.provide([databaseAt(database), NodeCrypto.layerDigest])
)

const Worker = Submission.layer.pipe(
  Layer.provide(Providers.layer({ [provider]: timed ? Timed : SandboxProvider.layer(options) })),
  Layer.provide(ProviderHttpClient.layer({ connections: defaultPolicy.concurrency * 2 })),
  Layer.provide(Queue)
)

Layer.launch(Layer.provide(Layer.effectDiscard(Effect.sync(() => report({}))), Worker)).pipe(
  Effect.provideService(References.TracerEnabled, false),
  Effect.provideService(References.MinimumLogLevel, "Warn"),
  NodeRuntime.runMain
)
