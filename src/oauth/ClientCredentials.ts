/**
 * The gateway's own access token at another server, such as a bank (RFC 6749 §4.4). Mutual TLS authenticates the gateway (RFC 8705 §2), so the
 * request has no secret. A token is used until shortly before it expires.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Redacted from "effect/Redacted"
import { exchangeJson, ServerFailure } from "../http/JsonExchange.ts"
import { RedactedBody } from "../http/OutgoingRequest.ts"

/** Milliseconds before its end at which a token is replaced: longer than a request takes. */
const margin = 60_000

const limits = { timeout: "10 seconds", size: 65_536 } as const

/** Makes the function that finds the token. It fails with `ServerFailure`. */
export const makeClientToken = Effect.fnUntraced(function*(
  { clientId, scope, tokenUrl }: { readonly tokenUrl: string; readonly clientId: string; readonly scope: string }
) {
  const client = yield* HttpClient.HttpClient
  let known: { readonly token: Redacted.Redacted<string>; readonly until: number } | null = null

  return Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    if (known !== null && now < known.until) return known.token
    const body = RedactedBody.form({ grant_type: "client_credentials", client_id: clientId, scope })
    const { access_token, expires_in } = yield* exchangeJson(
      client,
      HttpClientRequest.post(tokenUrl, { body }),
      limits
    )
    if (typeof access_token !== "string" || !/^[\x21-\x7e]+$/u.test(access_token)) {
      return yield* new ServerFailure({ reason: "the answer has no access token", status: 200 })
    }
    const token = Redacted.make(access_token)
    known = { token, until: typeof expires_in === "number" ? now + expires_in * 1000 - margin : 0 }
    return token
  })
})
