/**
 * `work`: the submission processes (worker, rescuer, reconciler), as a preset of `GatewayApp` that serves nothing.
 *
 * The room `cli/work`: the command that runs the workers. Read this file first.
 */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as PostgresCluster from "../../cluster/PostgresCluster.ts"
import { ProviderName } from "../../domain/Grant.ts"
import { permitTerms, type ProviderLimit } from "../../domain/ProviderLimit.ts"
import { loopbackHosts } from "../../http/OutgoingRequest.ts"
import * as GatewayApp from "../../node/GatewayApp.ts"
import * as AdminListener from "../../node/http/AdminListener.ts"
import * as ProviderHttpClient from "../../node/http/ProviderHttpClient.ts"
import { Database } from "../../node/postgres/Database.ts"
import * as SandboxProvider from "../../submission/http/SandboxProvider.ts"
import { Providers } from "../../submission/providers/Providers.ts"
import { defaultPolicy, SubmissionPolicy, validatePolicy } from "../../submission/SubmissionPolicy.ts"
import { adminFlags, adminOf, Lifetime, optionalText, spanOf, textOr } from "../Flags.ts"
import { CommandFailed } from "../Output.ts"

const positive = (name: string, description: string, fallback: number) =>
  Flag.Int(name).pipe(Flag.withDescription(`${description} (default: ${fallback})`), Flag.withDefault(fallback))

const span = (name: string, description: string, fallback: Duration.Duration) =>
  textOr(name, description, `${Duration.toSeconds(fallback)}s`, Lifetime)

const providerLimitFlag = Flag.String("provider-limit").pipe(
  Flag.withDescription(
    "Most requests that a provider takes from all workers together, such as bank=50/1s or "
      + "bank=300/1m;burst=10;reads=0.3;slack=2s; repeat for several (PROVIDER_LIMITS, separated by commas)"
  ),
  Flag.atLeast(0)
)

const flags = {
  providers: optionalText(
    "providers",
    "Module with the adapters of your providers. Its default export is a Layer of Providers",
    Schema.String
  ),
  sandbox: Flag.String("sandbox").pipe(
    Flag.withDescription(
      "Sandbox provider, as NAME=URL; repeat for several. With DATABASE_URL, on a loopback address alone"
    ),
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

const fromSandboxes = Effect.fnUntraced(function*(texts: ReadonlyArray<string>, isEmbedded: boolean) {
  const adapters: Record<string, ReturnType<typeof SandboxProvider.layer>> = {}
  for (const text of texts) {
    const sandbox = toSandbox(text)
    if (sandbox instanceof CommandFailed) return yield* sandbox
    const [name, baseUrl] = sandbox
    if (Object.hasOwn(adapters, name)) {
      return yield* new CommandFailed({ message: `--sandbox: ${name} is given twice` })
    }
    if (!isEmbedded && !loopbackHosts.has(new URL(baseUrl).hostname)) {
      return yield* new CommandFailed({
        message:
          `--sandbox ${text}: with DATABASE_URL, the sandbox must be on a loopback address, because its answers settle `
          + "operations"
      })
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
    const database = yield* Database
    const declared = Option.isSome(providers)
      ? yield* fromModule(providers.value)
      : yield* fromSandboxes(sandbox, database.isEmbedded)
    yield* Layer.launch(GatewayApp.layer({
      ...adminOf({ adminHost, adminPort }),
      serves: "nothing",
      admin: AdminListener.layer(),
      database: Layer.succeed(Database, database),
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

const limitPattern = /^(?<name>[^=]*)=(?<requests>\d{1,7})\/(?<interval>[^/;]+)(?<parts>(?:;[^;]*)*)$/u

const numberOf = (text: string): number | null => /^\d{1,7}(?:\.\d{1,6})?$/u.test(text) ? Number(text) : null

/** The settings after the rate: their members, and how their texts are read. */
const settings: Readonly<Record<string, readonly [keyof ProviderLimit, (text: string) => Duration.Input | null]>> = {
  burst: ["burst", numberOf],
  reads: ["reservedForReads", numberOf],
  slack: ["slack", spanOf]
}

/** Null if a part is unknown, invalid or given twice. */
const parse = (text: string): readonly [ProviderName, ProviderLimit] | null => {
  const { interval = "", name, parts = "", requests } = limitPattern.exec(text)?.groups ?? {}
  const span = spanOf(interval)
  if (!isProviderName(name) || span === null) return null
  const limit: Record<string, unknown> = { requests: Number(requests), interval: span }
  for (const part of parts.split(";").slice(1)) {
    const [setting = "", value = "", ...rest] = part.split("=")
    const [member, read] = (Object.hasOwn(settings, setting) ? settings[setting] : undefined) ?? []
    if (member === undefined || rest.length > 0 || Object.hasOwn(limit, member)) return null
    limit[member] = read!(value)
    if (limit[member] === null) return null
  }
  // `settings` reads each member in its form.
  return [name, limit as unknown as ProviderLimit]
}

const failed = (message: string) => new CommandFailed({ message })

/** Reads limits, from the flag or else from `PROVIDER_LIMITS`. Fails with one sentence on an invalid one. */
export const readProviderLimits = Effect.fnUntraced(function*(flags: ReadonlyArray<string>) {
  const variable = yield* Config.option(Config.String("PROVIDER_LIMITS"))
  const fromVariable = Option.getOrElse(variable, () => "").split(",").map((text) => text.trim()).filter((text) =>
    text !== ""
  )
  const [source, texts] = flags.length > 0 ? ["--provider-limit", flags] : ["PROVIDER_LIMITS", fromVariable]
  const limits = new Map<ProviderName, ProviderLimit>()
  for (const text of texts) {
    const parsed = parse(text)
    if (parsed === null) {
      return yield* failed(
        `${source} ${text}: must be NAME=REQUESTS/INTERVAL, such as bank=50/1s or bank=300/1m;burst=10;reads=0.3;slack=2s`
      )
    }
    const [provider, limit] = parsed
    if (limits.has(provider)) return yield* failed(`${source}: ${provider} is given twice`)
    yield* Effect.try({
      try: () => permitTerms(limit, 1),
      catch: (error) => failed(`${source} ${text}: ${error instanceof Error ? error.message : "invalid"}`)
    })
    limits.set(provider, limit)
  }
  return limits
})

/** Replaces the limits of these adapters. Fails if there is no adapter of that name. */
export const withLimits = <E, R>(
  adapters: Layer.Layer<Providers, E, R>,
  limits: ReadonlyMap<ProviderName, ProviderLimit>
): Layer.Layer<Providers, E | CommandFailed, R> =>
  limits.size === 0 ? adapters : Layer.effect(
    Providers,
    Effect.gen(function*() {
      const known = yield* Providers
      for (const provider of limits.keys()) {
        if (!known.has(provider)) {
          return yield* failed(`--provider-limit (PROVIDER_LIMITS): there is no adapter for ${provider}`)
        }
      }
      return new Map([...known].map(([provider, adapter]) => {
        const limit = limits.get(provider)
        return [provider, limit === undefined ? adapter : { ...adapter, limit }]
      }))
    })
  ).pipe(Layer.provide(adapters))
