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

const limitPattern = /^(?<requests>\d{1,7})\/(?<interval>[^/]+)$/u

const numberOf = (text: string): number | null => /^\d{1,7}(?:\.\d{1,6})?$/u.test(text) ? Number(text) : null

/** The settings after the rate. Null if one is unknown, invalid or given twice. */
const settingsOf = (parts: ReadonlyArray<string>): Omit<ProviderLimit, "requests" | "interval"> | null => {
  const settings: Record<string, number | Duration.Duration> = {}
  for (const part of parts) {
    const [name, text = "", ...rest] = part.split("=")
    const member = name === "burst"
      ? "burst"
      : name === "reads"
      ? "reservedForReads"
      : name === "slack"
      ? "slack"
      : null
    const value = name === "slack" ? spanOf(text) : numberOf(text)
    if (member === null || value === null || rest.length > 0 || Object.hasOwn(settings, member)) return null
    settings[member] = value
  }
  return settings
}

const isProviderName = Schema.is(ProviderName)

const parse = (text: string): readonly [ProviderName, ProviderLimit] | null => {
  const at = text.indexOf("=")
  const name = text.slice(0, Math.max(0, at))
  const [rate = "", ...parts] = text.slice(at + 1).split(";")
  const { interval, requests } = limitPattern.exec(rate)?.groups ?? {}
  const settings = settingsOf(parts)
  const span = interval === undefined ? null : spanOf(interval)
  if (!isProviderName(name) || requests === undefined || span === null || settings === null) return null
  return [name, { requests: Number(requests), interval: span, ...settings }]
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
