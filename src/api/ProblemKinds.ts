/** The problem catalogue: every error code of the service, with its status, its meaning and what a client should do. */

/** The members that all occurrences of a problem share. */
export interface ProblemKind {
  readonly status: number
  /** Whether repeating the identical request can safely succeed. */
  readonly retryable: boolean
  readonly title: string
  /** The meaning, in a sentence for people. */
  readonly meaning: string
  /** What a client should do about it. */
  readonly action: string
  /** Seconds after which a repetition can succeed, for `Retry-After`. */
  readonly retryAfter?: number
  /** An example of its `fields`, if it has them. */
  readonly fields?: ReadonlyArray<{ readonly message: string; readonly path: string }>
}

/** A mutation may be recorded although its answer is a problem, or got lost before this one. */
const underItsKey = "A POST keeps its Idempotency-Key: under a new one, it may happen twice."

/** Checks the kinds, and keeps their codes and statuses in the type. */
const kinds = <const Kinds extends Readonly<Record<string, ProblemKind>>>(kinds: Kinds): Kinds => kinds

/** Every kind of the public listener by its code. A published code keeps its meaning. Its `type` is `{base_url}/problems/{code}`. */
export const problemKinds = kinds({
  malformed_request: {
    status: 400,
    retryable: false,
    title: "Malformed request",
    meaning: "The request is not valid HTTP, or carries an access token in its query string.",
    action:
      "Correct the request. Send tokens in the Authorization header alone, and treat one that was in a URL as leaked."
  },
  missing_credentials: {
    status: 401,
    retryable: false,
    title: "Missing credentials",
    meaning: "The request carries no access token of a scheme that the gateway accepts.",
    action: "Send an access token in the Authorization header, with one of the schemes that the challenges name."
  },
  invalid_token: {
    status: 401,
    retryable: false,
    title: "Invalid token",
    meaning:
      "The access token is unknown, malformed or expired, was issued for another service, or is bound to another "
      + "sender.",
    action: "Obtain a new access token. One that is bound to a key or certificate is good with that alone."
  },
  invalid_dpop_proof: {
    status: 401,
    retryable: false,
    title: "Invalid DPoP proof",
    meaning: "The DPoP proof is missing, was used before, or does not prove that the token is the sender's for this "
      + "request (RFC 9449).",
    action: "Make a new proof for each request, with the key that the token is bound to, and check the clock."
  },
  use_dpop_nonce: {
    status: 401,
    retryable: false,
    title: "Use DPoP nonce",
    meaning: "The DPoP proof lacks the nonce that the gateway demands, or carries one that is too old.",
    action: "Make a new proof with the nonce that the DPoP-Nonce header names, and repeat the request."
  },
  grant_revoked: {
    status: 401,
    retryable: false,
    title: "Grant revoked",
    meaning: "The grant was revoked or has expired. Its operations are kept; this grant can no longer read them.",
    action: "Stop polling with this grant. Complete the authorization flow again and read through the new grant."
  },
  client_inactive: {
    status: 401,
    retryable: false,
    title: "Client inactive",
    meaning: "The client was deactivated.",
    action: "Stop polling. Ask the operator of the gateway to activate the client."
  },
  insufficient_scope: {
    status: 403,
    retryable: false,
    title: "Insufficient scope",
    meaning: "The grant does not include the scope that the request needs.",
    action: "Ask the resource owner for a grant with the scope that the challenge names."
  },
  provider_disconnected: {
    status: 403,
    retryable: false,
    title: "Provider disconnected",
    meaning: "The provider connection of the grant is disconnected. Its operations are kept.",
    action: "Stop polling. Have the resource owner connect the provider again, then read on."
  },
  origin_not_allowed: {
    status: 403,
    retryable: false,
    title: "Origin not allowed",
    meaning: "A web page of another origin sent the request, and the gateway does not allow that origin.",
    action: "Send the request from a program. An operator can allow the origin of a page."
  },
  operation_not_found: {
    status: 404,
    retryable: false,
    title: "Operation not found",
    meaning: "There is no such operation among those of the grant's resource owner, subject and client.",
    action: "Check the id, and that the grant is the right one."
  },
  route_not_found: {
    status: 404,
    retryable: false,
    title: "Route not found",
    meaning: "The gateway has no such path.",
    action: "Check the path against the API description."
  },
  method_not_allowed: {
    status: 405,
    retryable: false,
    title: "Method not allowed",
    meaning: "The path exists, but not with this method.",
    action: "Use one of the methods that the Allow header lists."
  },
  not_acceptable: {
    status: 406,
    retryable: false,
    title: "Not acceptable",
    meaning: "The Accept header excludes every media type in which the response exists.",
    action: "Accept `application/json`, or leave the header out."
  },
  request_timeout: {
    status: 408,
    retryable: true,
    title: "Request timeout",
    meaning: "The request did not arrive in full within the time that the gateway waits for it.",
    action: `Repeat the request on a new connection. ${underItsKey}`
  },
  change_token_expired: {
    status: 410,
    retryable: false,
    title: "Change token expired",
    meaning:
      "The change token belongs to another history of the ledger. The ledger was restored, or its database failed over, "
      + "and changes that the token counts as seen may have been lost.",
    action: "Drop the token and start the feed anew without one. It returns every operation in its current state."
  },
  payload_too_large: {
    status: 413,
    retryable: false,
    title: "Payload too large",
    meaning: "The request announces a body that is larger than the gateway reads.",
    action: "Send less. The gateway's own endpoints take no body at all."
  },
  uri_too_long: {
    status: 414,
    retryable: false,
    title: "URI too long",
    meaning: "The request target is longer than the gateway reads.",
    action: "Shorten the query."
  },
  invalid_request: {
    status: 422,
    retryable: false,
    title: "Invalid request",
    meaning: "The request is well-formed, but parts of it do not have the shape that the API description demands.",
    action: "Correct what `fields` names.",
    fields: [{ message: "Expected no parameters: this endpoint takes none", path: "query.x" }]
  },
  invalid_page_token: {
    status: 422,
    retryable: false,
    title: "Invalid page token",
    meaning: "The page token was not issued by this endpoint, or the filters differ from those it was issued for.",
    action: "Start again without a page token, or repeat the filters of the first page.",
    fields: [{ message: "Expected a token of this list and these filters", path: "query.page_token" }]
  },
  rate_limited: {
    status: 429,
    retryable: true,
    title: "Rate limited",
    meaning:
      "The client and subject of the grant have used up their quota of requests, or the address has used up that of "
      + "refused credentials.",
    action: `Repeat the request after the time that Retry-After names. ${underItsKey} RateLimit fields tell the quota.`,
    retryAfter: 1
  },
  headers_too_large: {
    status: 431,
    retryable: false,
    title: "Headers too large",
    meaning: "The header section is larger than the gateway reads.",
    action: "Send fewer or shorter headers."
  },
  internal_error: {
    status: 500,
    retryable: false,
    title: "Internal error",
    meaning: "The gateway failed in a way that it did not foresee.",
    action: `Report the request id to the operator of the gateway. ${underItsKey}`
  },
  response_contract_failed: {
    status: 500,
    retryable: false,
    title: "Response contract failed",
    meaning: "The gateway was about to send a response that breaks its own API description, and withheld it.",
    action: `Report the request id to the operator of the gateway. ${underItsKey}`
  },
  not_ready: {
    status: 503,
    retryable: true,
    title: "Not ready",
    meaning:
      "The gateway cannot take traffic: its database does not answer or lacks migrations, or it is shutting down.",
    action: "Send traffic elsewhere, and probe again.",
    retryAfter: 1
  },
  service_unavailable: {
    status: 503,
    retryable: true,
    title: "Service unavailable",
    meaning: "The gateway could not answer in time: its store is away, it is saturated, or it is shutting down.",
    action: `Repeat the request after the time that Retry-After names. ${underItsKey}`,
    retryAfter: 1
  },
  authorization_unavailable: {
    status: 503,
    retryable: true,
    title: "Authorization unavailable",
    meaning: "The access token could not be verified, because keys or the authorization server are out of reach.",
    action: `Repeat the request after the time that Retry-After names. ${underItsKey}`,
    retryAfter: 5
  },

  // Problems of mutation endpoints. The gateway's own endpoints answer with none of these codes; it describes them at
  // `/problems/{code}` for the applications that do. They follow the IETF draft "The Idempotency-Key HTTP Header Field"
  // (draft-ietf-httpapi-idempotency-key-header, §2.7), except for its 409: two requests that compete for a key both get
  // the operation.

  idempotency_key_required: {
    status: 400,
    retryable: false,
    title: "Idempotency key required",
    meaning:
      "The request carries no Idempotency-Key header, so the service cannot tell its repetition from another request.",
    action: "Choose a key, such as a UUID, before the first attempt, and send it with every repetition of the request."
  },
  unsupported_media_type: {
    status: 415,
    retryable: false,
    title: "Unsupported media type",
    meaning: "The body is of a media type that the endpoint does not read.",
    action: "Send JSON, with `Content-Type: application/json`."
  },
  idempotency_key_reused: {
    status: 422,
    retryable: false,
    title: "Idempotency key reused",
    meaning:
      "The idempotency key was used before, with another request or through another provider connection. The earlier request stands; this one was not recorded.",
    action: "Repeat the earlier request as it was, or choose a new key if this is other work."
  },

  // Refusals by the limits of a grant. Each recorded nothing.

  limit_exceeded: {
    status: 403,
    retryable: false,
    title: "Limit exceeded",
    meaning: "The amount is above a limit of the grant, or above what remains of one. Nothing was recorded.",
    action:
      "Tell the person who set the limit what `fields` says: the limit, what remains of it, and when it resets. Do not split "
      + "the amount.",
    fields: [
      { path: "limit", message: "500.00 EUR per day (Europe/Berlin)" },
      { path: "remaining", message: "12.50 EUR" },
      { path: "resets_at", message: "2026-01-31T23:00:00.000Z" }
    ]
  },
  payee_not_allowed: {
    status: 403,
    retryable: false,
    title: "Payee not allowed",
    meaning: "The limits of the grant name its payees, and this is none of them. Nothing was recorded.",
    action: "Ask the resource owner for a grant that names the payee. Do not pay another payee instead."
  },
  operation_not_covered: {
    status: 403,
    retryable: false,
    title: "Operation not covered",
    meaning:
      "The limits of the grant permit no operation of this type, or none in this currency. Nothing was recorded.",
    action: "Ask the resource owner for a grant whose limits cover the type and the currency."
  },
  terms_required: {
    status: 403,
    retryable: false,
    title: "Terms required",
    meaning:
      "The grant has limits, but the application declares no terms for this type of operation, so no limit can be checked. "
      + "Nothing was recorded.",
    action:
      "Report it to the developer of the endpoint: it must declare `terms`, the amount, currency and payee of its payload."
  }
})

/** The `code` of a problem, such as `invalid_request`. */
export type ProblemCode = keyof typeof problemKinds

/** The kinds that only the admin listener has. It answers with those of `problemKinds`, too. */
export const operatorProblemKinds = kinds({
  no_session: {
    status: 401,
    retryable: false,
    title: "No session",
    meaning: "You are not signed in, or your session has ended. Sign in again.",
    action: "Sign in again."
  },
  foreign_origin: {
    status: 403,
    retryable: false,
    title: "Foreign origin",
    meaning: "The request does not come from a page of the console.",
    action: "Use the page of the console."
  },
  wrong_csrf_token: {
    status: 403,
    retryable: false,
    title: "Wrong anti-forgery token",
    meaning: "The anti-forgery token is missing or wrong. Reload the page.",
    action: "Reload the page."
  },
  foreign_host: {
    status: 403,
    retryable: false,
    title: "Foreign host",
    meaning: "This listener does not answer under this host name. ADMIN_ALLOWED_HOSTS allows further names.",
    action: "Use another name, or allow this one in ADMIN_ALLOWED_HOSTS."
  },
  sign_in_refused: {
    status: 403,
    retryable: false,
    title: "Sign-in refused",
    meaning: "The link or the answer of the identity provider begins no session.",
    action: "Begin the sign-in anew."
  },
  grant_not_found: {
    status: 404,
    retryable: false,
    title: "Grant not found",
    meaning: "There is no such grant.",
    action: "Check the id."
  },
  moved_on: {
    status: 409,
    retryable: false,
    title: "Operation moved on",
    meaning: "The operation is no longer at the revision that the operator saw. Nothing changed.",
    action: "Read the operation again, and decide again."
  },
  already_settled: {
    status: 409,
    retryable: false,
    title: "Already settled",
    meaning: "The operation has ended. Nothing changed.",
    action: "Read how it ended."
  },
  illegal_transition: {
    status: 409,
    retryable: false,
    title: "Illegal transition",
    meaning: "The state of the operation does not permit the action. Nothing changed.",
    action: "Read the operation again: it names the next action."
  },
  still_held: {
    status: 409,
    retryable: false,
    title: "Still held",
    meaning: "The operation cannot be released yet. Nothing changed.",
    action: "Read when it can be released."
  },
  unknown_result: {
    status: 503,
    retryable: false,
    title: "Unknown result",
    meaning: "It is unknown whether the action happened.",
    action: "Read the operation again before you try again."
  },
  done_but_unread: {
    status: 503,
    retryable: false,
    title: "Done but unread",
    meaning: "The action was carried out. The operation could not be read after it.",
    action: "Read the operation again."
  },
  too_many_streams: {
    status: 503,
    retryable: true,
    title: "Too many streams",
    meaning: "Too many pages of the console are open.",
    action: "Close one of them.",
    retryAfter: 1
  }
})

/** The `code` of any problem. */
export type AnyProblemCode = ProblemCode | keyof typeof operatorProblemKinds

const allKinds: Readonly<Record<AnyProblemCode, ProblemKind>> = { ...problemKinds, ...operatorProblemKinds }

/** The kind of any problem. @internal */
export const kindOf = (code: AnyProblemCode): ProblemKind => allKinds[code]
