/**
 * Whether the body of a request is JSON, by its header and by its text.
 */
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"

/** A request without `Content-Type` counts as JSON: clients that name no type send JSON, too. */
export const isJson = ({ headers }: HttpServerRequest): boolean =>
  /^\s*application\/json\s*(?:;|$)/i.test(headers["content-type"] ?? "application/json")

/** Whether a body of JSON cannot be parsed. Call it after the body was decoded: the request caches its text. */
export const hasBrokenJson = (request: HttpServerRequest): Effect.Effect<boolean> =>
  isJson(request)
    ? Effect.match(request.text, { onFailure: () => false, onSuccess: (text) => !isParsable(text) })
    : Effect.succeed(false)

const isParsable = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
