/** Provider limits: how many requests all processes together send to a provider. */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { ProviderName } from "../../domain/Grant.ts"
import type { PermitDemand, Permits, PermitTerms } from "../../domain/ProviderLimit.ts"
import type { StoreUnavailable } from "../StoreUnavailable.ts"

export class ProviderLimits extends Context.Service<ProviderLimits, {
  /**
   * Reserves permits of the limit of a provider: as many as are asked for, or fewer, as far as the horizon. A permit is in
   * milliseconds from an instant between call and return. Wait for it from the return on, so that no request leaves early, and
   * count its lateness from the call on. A request that does not use its permit reserves another one.
   *
   * After `StoreUnavailable` it is unknown whether permits were reserved: send nothing. All callers must pass the same terms.
   */
  readonly reservePermits: (
    provider: ProviderName,
    demand: PermitDemand,
    terms: PermitTerms
  ) => Effect.Effect<Permits, StoreUnavailable>
  /** The permits that a call of `reservePermits` would reserve now. Reserves none, and writes only if the clock was set back. */
  readonly openPermits: (
    provider: ProviderName,
    demand: PermitDemand,
    terms: PermitTerms
  ) => Effect.Effect<Permits, StoreUnavailable>
  /**
   * Admits no request of a provider with a limit before the end of this pause, in any process. Permits that are reserved
   * already stay. A longer pause stays, too.
   */
  readonly closeProvider: (provider: ProviderName, pause: Duration.Duration) => Effect.Effect<void, StoreUnavailable>
}>()("financial-agents-gateway/services/queue/ProviderLimits") {}
