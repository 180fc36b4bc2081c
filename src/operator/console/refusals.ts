/**
 * The refusals of the console, as JSON.
 */
import * as HttpServerResponse from "effect/http/HttpServerResponse"

const refuse = (status: number, code: string, message: string) =>
  HttpServerResponse.jsonUnsafe({ code, message }, { status })

export const noSession = refuse(401, "no_session", "You are not signed in, or your session has ended. Sign in again.")
export const foreignOrigin = refuse(403, "foreign_origin", "The request does not come from a page of the console.")
export const wrongCsrfToken = refuse(
  403,
  "wrong_csrf_token",
  "The anti-forgery token is missing or wrong. Reload the page."
)
export const invalidRequest = refuse(400, "invalid_request", "The request does not meet the contract of the console.")
export const unknownPage = refuse(400, "unknown_page", "The page belongs to another list. Begin the list anew.")
export const routeNotFound = refuse(404, "route_not_found", "The console has no such path.")
export const methodNotAllowed = refuse(405, "method_not_allowed", "The path has no such method.")
export const notJson = refuse(415, "unsupported_media_type", "The body must be JSON.")
export const tooLarge = refuse(413, "payload_too_large", "The body is too large.")
export const internalError = refuse(500, "internal_error", "The console failed. Its log has the reason.")
export const tooManyStreams = refuse(503, "too_many_streams", "Too many pages of the console are open.")
