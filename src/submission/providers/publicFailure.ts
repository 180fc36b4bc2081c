/**
 * The failure that clients see when a provider refuses an operation. Code and message are those that the adapter declares, and
 * never text of the provider (specification, "Resources and their fields": the public form omits provider-specific data).
 */
import * as Effect from "effect/Effect"
import { declaredFailure, type DeclaredFailures, gatewayFailure } from "../../domain/GatewayFailures.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import type { OperationFailure } from "../../domain/Operation.ts"
import { loggable } from "./loggable.ts"

const rejected = gatewayFailure("provider_rejected")

/** The declared failure of a code. The refusal is proven also without one: then the failure is `provider_rejected`. */
export const publicFailure = (failures: DeclaredFailures | undefined, code: string): OperationFailure =>
  declaredFailure(failures, code) ?? rejected

/** Most defects that are remembered. Further ones are not logged. */
const mostKnown = 1000

/**
 * Makes a function that logs codes that an adapter does not declare, once for each provider and code. `said` names the kind of
 * answer that had them.
 */
export const makeFailureCheck = (said: "submission" | "status read") => {
  const known = new Set<string>()
  return (provider: ProviderName, failures: DeclaredFailures | undefined, code: string): Effect.Effect<void> => {
    const given = loggable(code)
    const key = `${provider} ${given}`
    const isExpected = code === rejected.code || declaredFailure(failures, code) !== null
    if (isExpected || known.has(key) || known.size >= mostKnown) return Effect.void
    known.add(key)
    return Effect.annotateLogs(
      Effect.logWarning("An adapter refused with a code that it does not declare: declare the code in `failures`"),
      { provider, said, given, published: rejected.code }
    )
  }
}
