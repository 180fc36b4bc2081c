/** Mistakes that can be built into a worker, as decorators of its provider. Each breaks a rule, and the judge must find it. */
import { Effect } from "effect"
import { type ProviderAdapter, StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import type { Control } from "./Figure.ts"

type Provider = ProviderAdapter["Service"]

interface Mistake extends Control {
  readonly make: (provider: Provider) => Provider
}

export const mistakes = {
  retry_uncertain: {
    meaning: "a submission with an unknown outcome is retried",
    breaks: ["doubles"],
    make: (provider) => ({
      ...provider,
      submit: (operation, payload) =>
        Effect.catchTag(provider.submit(operation, payload), "Uncertain", () => provider.submit(operation, payload))
    })
  },
  resend_after_rescue: {
    meaning: "a rescued operation is submitted again, instead of a status read",
    breaks: ["doubles"],
    make: (provider) => ({
      ...provider,
      readStatus: (operation, reference) =>
        Effect.andThen(
          reference === null ? Effect.ignore(provider.submit({ ...operation, send_before: null }, {})) : Effect.void,
          provider.readStatus(operation, reference)
        )
    })
  },
  not_found_means_failed: {
    meaning: "\"not found\" counts as \"failed\"",
    breaks: ["contradictions"],
    make: (provider) => ({
      ...provider,
      readStatus: (operation, reference) =>
        Effect.map(
          provider.readStatus(operation, reference),
          (answer) =>
            answer._tag === "NotFound"
              ? StatusAnswer.Proven({
                state: "failed",
                code: "not_found",
                names: answer.names,
                evidence: null
              })
              : answer
        )
    })
  }
} satisfies Readonly<Record<string, Mistake>>

export type MistakeName = keyof typeof mistakes
export const mistakeNames = Object.keys(mistakes) as ReadonlyArray<MistakeName>
