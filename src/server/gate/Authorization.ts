/** The step of the gate from the credential of a request to its grant. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Redacted from "effect/Redacted"
import { CurrentGrant } from "../../api/Middleware.ts"
import type { ProblemOf } from "../../api/Problems.ts"
import type { Credential } from "../../domain/Credential.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import { resourceOf } from "../../domain/McpResource.ts"
import { HttpMetrics, VerificationMetrics } from "../../metrics/HttpMetrics.ts"
import { readForwardedCertificate } from "../../oauth/ClientCertificate.ts"
import { GrantVerifier } from "../../services/verification/GrantVerifier.ts"
import { AcceptedCredentials, type ForwardedCertificates } from "../../services/verification/OAuthVerifier.ts"
import { type Admitted, CurrentSlot } from "./Admission.ts"
import { BaseUrl } from "./BaseUrl.ts"
import { trustedProxies } from "./ClientAddress.ts"
import { Problems } from "./ProblemResponses.ts"
import { makeQuotas, RateLimits } from "./RateLimits.ts"
import { refuseForNow } from "./Refusals.ts"
import { readAuthorization } from "./RequestChecks.ts"

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

/** The problem for a credential that is absent, is not accepted, or could not be verified. */
type CredentialProblem = ProblemOf<
  | "missing_credentials"
  | "invalid_token"
  | "invalid_dpop_proof"
  | "use_dpop_nonce"
  | "service_unavailable"
  | "authorization_unavailable"
>

type Refusal = CredentialProblem | ProblemOf<"rate_limited">

type Responding<E, R> = Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>

/**
 * Makes the step of the gate that reads the credential, verifies it by `GrantVerifier`, and runs the request for its grant
 * within the limits of the client.
 */
export const makeAuthorize = Effect.gen(function*() {
  const accepted = yield* AcceptedCredentials
  const problems = yield* Problems
  const verify = yield* makeVerify
  const limits = yield* RateLimits
  const quotas = limits === null ? null : makeQuotas(limits, problems, yield* HttpMetrics)
  const baseUrl = yield* BaseUrl

  const certificateOf = accepted.certificates === null
    ? () => Effect.succeed(null)
    : certificatesFrom(accepted.certificates)

  const missing = problems.fail("missing_credentials")

  const read = (request: HttpServerRequest, path: string): Effect.Effect<Credential, CredentialProblem> => {
    const authorization = readAuthorization(request.headers)
    if (authorization === null || (authorization.scheme === "DPoP" && accepted.dpopAlgorithms === null)) return missing
    const proof = request.headers["dpop"]
    return Effect.mapEager(certificateOf(request), (certificate) => ({
      scheme: authorization.scheme,
      token: Redacted.make(authorization.token),
      proof: proof === undefined ? null : Redacted.make(proof),
      certificate,
      method: request.method,
      url: baseUrl + path,
      resource: resourceOf(baseUrl, path)
    }))
  }

  /** `use_dpop_nonce` is not charged: an expired nonce is no mistake, and the credential may be valid. */
  const refuse = (
    problem: CredentialProblem,
    request: HttpServerRequest
  ): Effect.Effect<never, Refusal> =>
    quotas === null || problem.status !== 401 || problem.code === "use_dpop_nonce"
      ? Effect.fail(problem)
      : Effect.andThen(quotas.refusal(request), Effect.fail(problem))

  return <E, R>(
    admitted: Admitted,
    request: HttpServerRequest,
    path: string,
    httpEffect: Responding<E, R | CurrentGrant>
  ) =>
    Effect.matchEffect(Effect.flatMapEager(read(request, path), verify), {
      onFailure: (problem) => refuse(problem, request),
      onSuccess: (grant) =>
        admitted.forClient(
          grant.client_id,
          Effect.withFiber((fiber) => {
            // The request restores the context of its fiber.
            fiber.setContext(
              Context.add(Context.add(fiber.context, CurrentGrant, grant), CurrentSlot, admitted.slot)
            )
            // The context has the grant now.
            const granted = httpEffect as Responding<E, R>
            return quotas === null ? granted : quotas.request(grant, request, granted)
          })
        )
    })
})

type Verify = GrantVerifier["Service"]["verify"]

/** An application may replace the verifier, so the log names it. */
const nameDefect = (cause: unknown) => Effect.die(new Error("GrantVerifier.verify failed with a defect", { cause }))

/** Makes the verification of credentials, which fails with problems. */
export const makeVerify = Effect.gen(function*() {
  const { verify } = yield* GrantVerifier
  const counts = yield* VerificationMetrics
  const problems = yield* Problems
  const refuse = (error: Effect.Error<ReturnType<Verify>>): Effect.Effect<never, CredentialProblem> => {
    switch (error._tag) {
      case "InvalidCredential":
        return Effect.andThen(
          error.reason === undefined
            ? Effect.void
            : Effect.annotateLogs(Effect.logInfo("The verifier refused a credential"), { reason: error.reason }),
          problems.fail("invalid_token")
        )
      case "InvalidDpopProof":
        return problems.fail("invalid_dpop_proof", { detail: `The DPoP proof ${error.reason}.` })
      case "NonceRequired":
        return problems.fail("use_dpop_nonce", { nonce: error.nonce })
      case "AuthorizationUnavailable":
        return problems.fail("authorization_unavailable", {
          cause: `the credential could not be verified: ${
            error.cause instanceof Error ? error.cause.message : String(error.cause)
          }`
        })
      case "StoreUnavailable":
        return refuseForNow(problems, error)
    }
  }
  /** They are counted. A verification whose client leaves has no outcome. */
  const outcomes = {
    onSuccess: (grant: GrantIdentity) => {
      if (counts !== null) counts.verified.value++
      return Effect.succeed(grant)
    },
    onFailure: (error: Effect.Error<ReturnType<Verify>>) => {
      const isUnavailable = error._tag === "AuthorizationUnavailable" || error._tag === "StoreUnavailable"
      if (counts !== null) counts[isUnavailable ? "unavailable" : "refused"].value++
      return refuse(error)
    }
  }
  return (credential: Credential): Effect.Effect<GrantIdentity, CredentialProblem> =>
    Effect.matchEffect(Effect.catchDefect(Effect.suspend(() => verify(credential)), nameDefect), outcomes)
})
