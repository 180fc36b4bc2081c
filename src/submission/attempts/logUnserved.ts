import * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"

/** Most names that are remembered. Further ones are not logged. */
const mostKnown = 1000

/**
 * Makes a function that logs, once for each name, that operations of a provider without an adapter in this process were
 * accepted. Another process may have the adapter.
 */
export const makeUnservedLog = (adapters: ReadonlyArray<ProviderName>) => {
  const known = new Set<ProviderName>()
  return (provider: ProviderName): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (known.has(provider) || known.size >= mostKnown) return Effect.void
      known.add(provider)
      return Effect.annotateLogs(
        Effect.logWarning(
          "Accepted operations of a provider without an adapter here: they wait for a worker that has one. Check the name"
        ),
        { provider, adapters }
      )
    })
}
