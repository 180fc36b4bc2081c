/**
 * `work`: the moving parts of the write side, as a process of their own.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { Provider as ProviderName } from "../domain/Grant.ts"
import { WorkerPool } from "../embedded/Database.ts"
import * as PgAcceptanceSignal from "../embedded/PgAcceptanceSignal.ts"
import * as ProviderHttpClient from "../embedded/ProviderHttpClient.ts"
import { SubmissionQueue } from "../services/SubmissionQueue.ts"
import { Providers } from "../submission/Providers.ts"
import * as SandboxProvider from "../submission/SandboxProvider.ts"
import * as Submission from "../submission/Submission.ts"
import { defaultPolicy, policyFault, SubmissionPolicy } from "../submission/SubmissionPolicy.ts"
import { Lifetime } from "./Flags.ts"
import { CommandFailed } from "./Output.ts"
import { layerPayloadKeys } from "./PayloadKeys.ts"

/** What the workers need of the database, on a pool of their own. */
export const Queue = SubmissionQueue.layer.pipe(
  Layer.merge(PgAcceptanceSignal.layer),
  Layer.provide(layerPayloadKeys),
  Layer.provide(WorkerPool)
)

const positive = (name: string, description: string, fallback: number) =>
  Flag.Int(name).pipe(Flag.withDescription(description), Flag.withDefault(fallback))

const span = (name: string, description: string, fallback: Duration.Duration) =>
  Flag.String(name).pipe(
    Flag.withDescription(description),
    Flag.withDefault(`${Duration.toSeconds(fallback)}s`),
    Flag.withSchema(Lifetime)
  )

const flags = {
  providers: Flag.String("providers").pipe(
    Flag.withDescription("Module whose default export is a Layer of Providers: the adapters of your own providers"),
    Flag.optional
  ),
  sandbox: Flag.String("sandbox").pipe(
    Flag.withDescription("Provider that is a sandbox, as NAME=URL; repeatable"),
    Flag.atLeast(0),
    Flag.withSchema(
      Schema.Array(Schema.String.check(Schema.isPattern(/^[^=]+=https?:\/\/.+$/u, { expected: "NAME=URL" })))
    )
  ),
  concurrency: positive("concurrency", "Submissions, and status reads, at the same time", defaultPolicy.concurrency),
  providerConcurrency: positive(
    "provider-concurrency",
    "The same for one provider",
    defaultPolicy.providerConcurrency
  ),
  sendWithin: span("send-within", "From the claim on, how long bytes may leave", defaultPolicy.sendWithin),
  attemptTimeout: span("attempt-timeout", "How long one attempt may take", defaultPolicy.attemptTimeout),
  rescueAfter: span("rescue-after", "Age at which a claim is stale", defaultPolicy.rescueAfter),
  drainTimeout: span(
    "drain-timeout",
    "How long running submissions may go on after SIGTERM",
    defaultPolicy.drainTimeout
  )
}

const fromModule = Effect.fnUntraced(function*(file: string) {
  const path = yield* Path.Path
  const url = yield* path.toFileUrl(path.resolve(file))
  const module = yield* Effect.tryPromise({
    try: () => import(url.href) as Promise<{ readonly default?: unknown }>,
    catch: (cause) => new CommandFailed({ message: `--providers: ${cause instanceof Error ? cause.message : file}` })
  })
  if (!Layer.isLayer(module.default)) {
    return yield* new CommandFailed({ message: `--providers: ${file} has no Layer as its default export` })
  }
  return module.default as Layer.Layer<Providers, unknown, HttpClient.HttpClient>
})

const fromSandboxes = (sandboxes: ReadonlyArray<string>) =>
  Providers.layer(Object.fromEntries(sandboxes.map((text) => {
    const [name, ...url] = text.split("=")
    return [ProviderName.make(name!), SandboxProvider.layer({ baseUrl: url.join("=") })]
  })))

export const work = Command.make(
  "work",
  flags,
  Effect.fn(function*({ providers, sandbox, ...options }) {
    if (Option.isSome(providers) === sandbox.length > 0) {
      return yield* new CommandFailed({ message: "give either --providers or --sandbox: who is to be worked for?" })
    }
    const policy = { ...defaultPolicy, ...options }
    const fault = policyFault(policy)
    if (fault !== null) return yield* new CommandFailed({ message: fault })
    const adapters = Option.isSome(providers) ? yield* fromModule(providers.value) : fromSandboxes(sandbox)
    const announced = Layer.effectDiscard(
      Effect.flatMap(
        Providers,
        (known) => Effect.annotateLogs(Effect.logInfo("Working"), { providers: [...known.keys()] })
      )
    )
    yield* Layer.launch(
      announced.pipe(
        Layer.provide(Submission.layer),
        Layer.provide(adapters),
        Layer.provide(ProviderHttpClient.layer({ connections: policy.concurrency * 2 })),
        Layer.provide(Queue),
        Layer.provide(Layer.succeed(SubmissionPolicy, policy))
      )
    )
  })
).pipe(
  Command.withDescription("Submit operations to their providers and settle them, beside any number of other workers"),
  Command.withExamples([
    {
      command: "financial-agents-gateway work --sandbox demo-bank=http://127.0.0.1:4010",
      description: "For the sandbox provider that the command sandbox runs"
    },
    {
      command: "DATABASE_URL=postgres://gateway_writer@db/gateway financial-agents-gateway work --providers ./banks.js",
      description: "For providers of your own"
    }
  ])
)
