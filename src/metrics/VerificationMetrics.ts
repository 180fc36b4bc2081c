/**
 * Verifications of credentials, by outcome.
 */
import type * as Context from "effect/Context"
import type * as Layer from "effect/Layer"
import { type Count, countsReference, layerOf } from "./Series.ts"

const verifications = {
  name: "gateway_verifications_total",
  help:
    "Verified credentials of requests, by outcome. Unavailable: the authorization server or the database did not answer."
}

/** How a verification ended. */
type VerificationOutcome = "verified" | "refused" | "unavailable"

/** A count for each outcome. */
type Verifications = Readonly<Record<VerificationOutcome, Count>>

/** Null: verifications are not counted. */
export const VerificationMetrics: Context.Reference<Verifications | null> = countsReference("VerificationMetrics")

export type VerificationMetrics = Verifications | null

/** Counts verifications, and registers the series. */
export const layer: Layer.Layer<never> = layerOf(VerificationMetrics, ({ counter }) => ({
  verified: counter(verifications, { outcome: "verified" }),
  refused: counter(verifications, { outcome: "refused" }),
  unavailable: counter(verifications, { outcome: "unavailable" })
}))
