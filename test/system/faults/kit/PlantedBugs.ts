/**
 * Mistakes to build into a worker, as decorators of its provider. Each breaks one rule of the engine, and the judge
 * must report it.
 */
import { Effect } from "effect"
import { type ProviderAdapter, StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import type { PlantedBug } from "./Plan.ts"

type Service = ProviderAdapter["Service"]

const bugs: Readonly<Record<PlantedBug, (provider: Service) => Service>> = {
  retry_uncertain: (provider) => ({
    ...provider,
    submit: (operation, payload) =>
      Effect.catchTag(provider.submit(operation, payload), "Uncertain", () => provider.submit(operation, payload))
  }),
  resend_after_rescue: (provider) => ({
    ...provider,
    readStatus: (operation, reference) =>
      Effect.andThen(
        reference === null ? Effect.ignore(provider.submit({ ...operation, send_before: null }, {})) : Effect.void,
        provider.readStatus(operation, reference)
      )
  }),
  not_found_means_failed: (provider) => ({
    ...provider,
    readStatus: (operation, reference) =>
      Effect.map(
        provider.readStatus(operation, reference),
        (answer) =>
          answer._tag === "NotProven" && answer.reason === "not_found"
            ? StatusAnswer.Proven({
              state: "failed",
              code: "not_found",
              message: "The provider has no such operation.",
              names: answer.names,
              evidence: null
            })
            : answer
      )
  })
}

/** The provider, with or without a mistake. */
export const withBug = (bug: PlantedBug | null, provider: Service): Service =>
  bug === null ? provider : bugs[bug](provider)
