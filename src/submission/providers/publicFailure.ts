/**
 * The failure that clients see when a provider rejects an operation. It has the provider's code in the form of the public
 * contract, unless the gateway reserves it, and the provider's message.
 */
import * as Effect from "effect/Effect"
import { gatewayFailure, isGatewayFailureCode } from "../../domain/GatewayFailures.ts"
import type { ProviderName } from "../../domain/Grant.ts"
import { isOperationFailure, type OperationFailure } from "../../domain/Operation.ts"
import { loggable } from "./loggable.ts"

/** Code and message as a provider's adapter gives them. */
interface GivenFailure {
  readonly code: string
  readonly message: string
}

/** UTF-16 code units. */
const longestCode = 64
const longestMessage = 1024

/**
 * Returns a valid failure unchanged. In the code of another one, letters become lower case, and each run of other characters than letters
 * and digits becomes one `_`: `E-51` becomes `e_51`. A leading digit gets the prefix `provider_`, and at most 64 characters stay.
 *
 * A code without a letter or digit becomes `provider_rejected`. So does each code, valid or not, that is then one of the gateway's own.
 *
 * The message loses text that PostgreSQL cannot keep, and all characters after the first 1024. An empty message becomes one of the
 * gateway.
 */
export const publicFailure = ({ code, message }: GivenFailure): OperationFailure => {
  const failure = { code, message }
  const valid = isOperationFailure(failure) ? failure : { code: publicCode(code), message: publicMessage(message) }
  return isGatewayFailureCode(valid.code) ? { ...valid, code: neutral.code } : valid
}

const neutral = gatewayFailure("provider_rejected")

const publicCode = (code: unknown): string => {
  // An adapter without type checks may give another value. Only the first characters can stay.
  const text = typeof code === "string" ? code.slice(0, 4 * longestCode).toLowerCase() : ""
  const words = text.split(/[^a-z0-9]/u).filter((word) => word !== "").join("_")
  if (words === "") return neutral.code
  return (words < "a" ? `provider_${words}` : words).slice(0, longestCode)
}

const publicMessage = (message: unknown): string => {
  const text = typeof message === "string" ? message.replaceAll("\0", "").slice(0, longestMessage).toWellFormed() : ""
  return text === "" ? neutral.message : text
}

/** Most violations that are remembered. Further ones are not logged. */
const mostKnown = 1000

/**
 * Makes a function that logs codes and messages that cannot be public as they are, once for each provider and code. `said`
 * names the kind of answer that had them.
 */
export const makeFailureCheck = (said: "submission" | "status read") => {
  const known = new Set<string>()
  return (provider: ProviderName, given: GivenFailure): Effect.Effect<void> => {
    const key = `${provider} ${loggable(given.code)}`
    const published = publicFailure(given)
    const isUnchanged = published.code === given.code && published.message === given.message
    if (isUnchanged || known.has(key) || known.size >= mostKnown) return Effect.void
    known.add(key)
    return Effect.annotateLogs(
      Effect.logWarning(
        "An adapter rejected with a code or message that cannot be public as it is: change the adapter"
      ),
      { provider, said, given: loggable(given.code), published: published.code }
    )
  }
}
