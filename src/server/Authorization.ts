/**
 * Middleware that reads the credential of a request and finds its grant.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { unhandled } from "effect/Types"
import { Authorization, CurrentGrant } from "../api/Middleware.ts"
import type { ServiceUnavailable, TooManyRequests, Unauthorized } from "../api/Problems.ts"
import type { Credential } from "../domain/Credential.ts"
import { readForwardedCertificate } from "../oauth/ClientCertificate.ts"
import { AcceptedCredentials, type ForwardedCertificates } from "../services/verification/AcceptedCredentials.ts"
import { GrantVerifier } from "../services/verification/GrantVerifier.ts"
import { BaseUrl } from "./BaseUrl.ts"
import { makeCharges } from "./Charges.ts"
import { Lifecycle } from "./Lifecycle.ts"
import { Problems } from "./ProblemResponses.ts"
import { RateLimits } from "./RateLimits.ts"
import { refuseForNow } from "./Refusals.ts"
import { CurrentRequest } from "./RequestContext.ts"
import { trustedProxies } from "./TrustedProxies.ts"

/** Scheme and token (RFC 9110 §11.4). */
const authorizationPattern = /^(bearer|dpop) +([^ ].*)$/i

/**
 * The thumbprint of the client certificate, as a trusted proxy forwards it. Headers from other addresses are ignored.
 */
const certificatesFrom = ({ header, proxies }: ForwardedCertificates) => {
  const isTrusted = trustedProxies(proxies)
  return ({ headers, remoteAddress }: HttpServerRequest): Effect.Effect<string | null> => {
    const value = headers[header]
    return value !== undefined && remoteAddress._tag === "Some" && isTrusted(remoteAddress.value)
      ? readForwardedCertificate(value)
      : Effect.succeed(null)
  }
}

/** The problems of a credential that was read. */
type Refusal = Unauthorized | ServiceUnavailable | TooManyRequests

/** Implements `Authorization`: this layer reads the headers, and `GrantVerifier` verifies the credential. */
export const AuthorizationLayer: Layer.Layer<
  Authorization,
  never,
  BaseUrl | GrantVerifier | Lifecycle | Problems
> = Layer.effect(
  Authorization,
  Effect.gen(function*() {
    const accepted = yield* AcceptedCredentials
    const baseUrl = yield* BaseUrl
    const lifecycle = yield* Lifecycle
    const verifier = yield* GrantVerifier
    const problems = yield* Problems

    const certificateOf = accepted.certificates === null
      ? () => Effect.succeed(null)
      : certificatesFrom(accepted.certificates)

    const read = Effect.fnUntraced(function*(request: HttpServerRequest) {
      const [, scheme, token] = authorizationPattern.exec(request.headers["authorization"] ?? "") ?? []
      if (scheme === undefined || token === undefined) return yield* problems.fail("missing_credentials")
      const isDpop = scheme.toLowerCase() === "dpop"
      if (isDpop && accepted.dpopAlgorithms === null) return yield* problems.fail("missing_credentials")
      const proof = request.headers["dpop"]
      const info = yield* CurrentRequest
      return {
        scheme: isDpop ? "DPoP" : "Bearer",
        token: Redacted.make(token),
        proof: proof === undefined ? null : Redacted.make(proof),
        certificate: yield* certificateOf(request),
        method: request.method,
        url: baseUrl + (info?.path ?? "/")
      } satisfies Credential
    })

    const verify = (credential: Credential) =>
      Effect.catchTags(verifier.verify(credential), {
        InvalidCredential: () => problems.fail("invalid_token"),
        InvalidDpopProof: ({ reason }) => problems.fail("invalid_dpop_proof", { detail: `The DPoP proof ${reason}.` }),
        NonceRequired: ({ nonce }) => problems.fail("use_dpop_nonce", { nonce }),
        AuthorizationUnavailable: ({ cause }) =>
          Effect.andThen(
            Effect.logError("The credential could not be verified", Cause.fail(cause)),
            problems.fail("authorization_unavailable")
          ),
        StoreUnavailable: (error) => refuseForNow(problems, error)
      })

    /** The refusals of requests, so that the second security scheme of the contract does not verify again. */
    const refusals = new WeakMap<HttpServerRequest, Refusal>()
    const remember = <E extends Refusal>(refused: Effect.Effect<never, E>) =>
      Effect.flatMap(
        HttpServerRequest,
        (request) => Effect.tapError(refused, (problem) => Effect.sync(() => refusals.set(request, problem)))
      )

    const tooMany = remember(
      problems.fail("service_unavailable", { detail: "The client has too many running requests." })
    )
    const limits = yield* RateLimits
    const charges = limits === null ? null : makeCharges(limits, problems)

    /** `use_dpop_nonce` is not charged: an expired nonce is no mistake, and the credential may be valid. */
    const refuse = (
      problem: Unauthorized | ServiceUnavailable,
      request: HttpServerRequest
    ): Effect.Effect<never, Refusal> =>
      charges === null || problem.status !== 401 || problem.code === "use_dpop_nonce"
        ? Effect.fail(problem)
        : Effect.andThen(charges.refusal(request), Effect.fail(problem))

    const authorize = <R>(httpEffect: Effect.Effect<HttpServerResponse.HttpServerResponse, unhandled, R>) =>
      Effect.flatMap(HttpServerRequest, (request) => {
        const refusal = refusals.get(request)
        if (refusal !== undefined) return Effect.fail(refusal)
        return Effect.flatMap(
          Effect.catch(Effect.flatMap(read(request), verify), (problem) => remember(refuse(problem, request))),
          (grant) =>
            Effect.provideService(
              lifecycle.admitClient(
                grant.client_id,
                charges === null ? httpEffect : charges.request(grant, request, httpEffect, remember),
                tooMany
              ),
              CurrentGrant,
              grant
            )
        )
      })

    return Authorization.of({ bearer: authorize, dpop: authorize })
  })
)
