/**
 * The limits of providers in `work`: `--provider-limit`, and `PROVIDER_LIMITS` in the environment.
 */
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ProviderName } from "../../domain/Grant.ts"
import { permitTerms, type ProviderLimit } from "../../domain/ProviderLimit.ts"
import { Providers } from "../../submission/providers/Providers.ts"
import { spanOf } from "../Flags.ts"
import { CommandFailed } from "../Output.ts"

export const providerLimitFlag = Flag.String("provider-limit").pipe(
  Flag.withDescription(
    "Most requests that a provider takes from all workers together, such as bank=50/1s or "
      + "bank=300/1m;burst=10;reads=0.3;slack=2s; repeat for several (PROVIDER_LIMITS, separated by commas)"
  ),
  Flag.atLeast(0)
)

const limitPattern = /^(?<name>[^=]*)=(?<requests>\d{1,7})\/(?<interval>[^/;]+)(?<parts>(?:;[^;]*)*)$/u

const numberOf = (text: string): number | null => /^\d{1,7}(?:\.\d{1,6})?$/u.test(text) ? Number(text) : null

/** The settings after the rate: their members, and how their texts are read. */
const settings: Readonly<Record<string, readonly [keyof ProviderLimit, (text: string) => Duration.Input | null]>> = {
  burst: ["burst", numberOf],
  reads: ["reservedForReads", numberOf],
  slack: ["slack", spanOf]
}

const isProviderName = Schema.is(ProviderName)

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
