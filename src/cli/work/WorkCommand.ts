/**
 * `work`: the submission processes (worker, rescuer, reconciler), as a preset of `GatewayApp` that serves nothing.
 *
 * The room `work`: the command that runs the workers. Read this file first.
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
import * as PostgresCluster from "../../cluster/PostgresCluster.ts"
import { ProviderName } from "../../domain/Grant.ts"
import * as GatewayApp from "../../node/GatewayApp.ts"
import * as AdminListener from "../../node/http/AdminListener.ts"
import * as ProviderHttpClient from "../../node/http/ProviderHttpClient.ts"
import { Database } from "../../node/postgres/Database.ts"
import { Providers } from "../../submission/providers/Providers.ts"
import * as SandboxProvider from "../../submission/providers/SandboxProvider.ts"
import { defaultPolicy, SubmissionPolicy, validatePolicy } from "../../submission/SubmissionPolicy.ts"
import { adminFlags, adminOf, Lifetime, optionalText, textOr } from "../Flags.ts"
import { CommandFailed } from "../Output.ts"
import { providerLimitFlag, readProviderLimits, withLimits } from "./ProviderLimitFlags.ts"

const positive = (name: string, description: string, fallback: number) =>
  Flag.Int(name).pipe(Flag.withDescription(`${description} (default: ${fallback})`), Flag.withDefault(fallback))

const span = (name: string, description: string, fallback: Duration.Duration) =>
  textOr(name, description, `${Duration.toSeconds(fallback)}s`, Lifetime)

const flags = {
  providers: optionalText(
    "providers",
    "Module with the adapters of your providers. Its default export is a Layer of Providers",
    Schema.String
  ),
  sandbox: Flag.String("sandbox").pipe(
    Flag.withDescription("Sandbox provider, as NAME=URL; repeat for several"),
    Flag.atLeast(0)
  ),
  providerLimit: providerLimitFlag,
  concurrency: positive(
    "concurrency",
    "Most submissions at the same time, and most status reads",
    defaultPolicy.concurrency
  ),
  providerConcurrency: positive(
    "provider-concurrency",
    "The same limit for each provider",
    defaultPolicy.providerConcurrency
  ),
  sendWithin: span("send-within", "How long after its claim an operation may be sent", defaultPolicy.sendWithin),
  attemptTimeout: span("attempt-timeout", "How long one attempt may take", defaultPolicy.attemptTimeout),
  rescueAfter: span("rescue-after", "Age at which the rescuer treats a claim as stale", defaultPolicy.rescueAfter),
  drainTimeout: span(
    "drain-timeout",
    "How long running submissions may continue after SIGTERM",
    defaultPolicy.drainTimeout
  ),
  ...adminFlags,
  workerId: optionalText(
    "worker-id",
    "Id of this worker, the same after a restart. Its next start settles the claims of a crash at once. No two "
      + "running workers may have the same id",
    Schema.String,
    "WORKER_ID"
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

/** Reads one `--sandbox`: name and URL, or the error. */
const toSandbox = (text: string): readonly [ProviderName, string] | CommandFailed => {
  const [name = "", ...rest] = text.split("=")
  const url = rest.join("=")
  if (!isProviderName(name) || !/^https?:\/\/./.test(url) || !URL.canParse(url)) {
    return new CommandFailed({
      message: `--sandbox ${text}: must be NAME=URL: the name of a provider in provider connections, and an http URL`
    })
  }
  return [name, url]
}

const fromSandboxes = Effect.fnUntraced(function*(texts: ReadonlyArray<string>) {
  const adapters: Record<string, ReturnType<typeof SandboxProvider.layer>> = {}
  for (const text of texts) {
    const sandbox = toSandbox(text)
    if (sandbox instanceof CommandFailed) return yield* sandbox
    const [name, baseUrl] = sandbox
    if (Object.hasOwn(adapters, name)) {
      return yield* new CommandFailed({ message: `--sandbox: ${name} is given twice` })
    }
    adapters[name] = SandboxProvider.layer({ baseUrl })
  }
  return Providers.layer(adapters)
})

const isProviderName = Schema.is(ProviderName)

export const work = Command.make(
  "work",
  flags,
  Effect.fn(function*({ adminHost, adminPort, providerLimit, providers, sandbox, workerId, ...options }) {
    if (Option.isSome(providers) === sandbox.length > 0) {
      return yield* new CommandFailed({ message: "specify exactly one of --providers and --sandbox" })
    }
    const policy = { ...defaultPolicy, ...options, workerId: Option.getOrNull(workerId) }
    const invalid = validatePolicy(policy, sandbox.length)
    if (invalid !== null) return yield* new CommandFailed({ message: invalid })
    const limits = yield* readProviderLimits(providerLimit)
    const declared = Option.isSome(providers) ? yield* fromModule(providers.value) : yield* fromSandboxes(sandbox)
    yield* Layer.launch(GatewayApp.layer({
      ...adminOf({ adminHost, adminPort }),
      serves: "nothing",
      admin: AdminListener.layer(),
      database: Layer.succeed(Database, yield* Database),
      cluster: PostgresCluster.layer,
      migrate: false,
      providers: withLimits(declared, limits),
      providerClient: ProviderHttpClient.layer({ connections: policy.concurrency * 2 }),
      references: Layer.succeed(SubmissionPolicy, policy)
    }))
  })
).pipe(
  Command.withDescription(
    "Submit operations to their providers and settle them. Any number of workers may run at once"
  ),
  Command.withExamples([
    {
      command: "financial-agents-gateway work --sandbox demo-bank=http://127.0.0.1:4010",
      description: "With the sandbox provider of the command sandbox"
    },
    {
      command: "DATABASE_URL=postgres://gateway_writer@db/gateway financial-agents-gateway work --providers ./banks.js",
      description: "With your own providers"
    }
  ])
)
