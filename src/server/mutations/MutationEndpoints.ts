/**
 * Endpoints of applications that accept operations. The room `server/mutations` has nothing else.
 *
 * The common part of mutation endpoints: the checks of the request, the acceptance of the operation, and the problems
 * of both. Applications add their own endpoints to it.
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { withHeaders } from "effect/http-api/HttpApiSchema"
import type { RouteContext } from "effect/http/HttpRouter"
import { HttpServerRequest, ParsedSearchParams } from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import { CurrentGrant, type Gate } from "../../api/Middleware.ts"
import {
  type AcceptedOperation,
  CurrentKey,
  EndpointTerms,
  idempotencyKeyHeader,
  idempotentReplayedHeader,
  MutationRequest,
  parseIdempotencyKey
} from "../../api/MutationEndpoint.ts"
import type { ProblemOf, refusedByLimits, refusedGrants } from "../../api/Problems.ts"
import type { LimitRefusal } from "../../domain/AuthorizationDetails.ts"
import type { GrantIdentity, GrantRefusal, Scope } from "../../domain/Grant.ts"
import type { BindingConflict, IdempotencyKey, InvalidFinancialRequest } from "../../domain/Idempotency.ts"
import type { InvalidMember } from "../../domain/InvalidMember.ts"
import { type OperationType, pollAfterSeconds } from "../../domain/Operation.ts"
import { type Terms, termsIn } from "../../domain/Terms.ts"
import { type Accepted, OperationLedger } from "../../services/OperationLedger.ts"
import type { RequestIds } from "../../services/RequestIds.ts"
import type { StoreUnavailable } from "../../services/StoreUnavailable.ts"
import type { GrantVerifier } from "../../services/verification/GrantVerifier.ts"
import { BaseUrl } from "../gate/BaseUrl.ts"
import { GateLayer } from "../gate/Gate.ts"
import { findInvalidFields, type Options, refuseFields } from "../gate/InvalidFields.ts"
import type { Lifecycle } from "../gate/Lifecycle.ts"
import { Problems } from "../gate/ProblemResponses.ts"
import { refuseByLimits, refuseForNow, refuseGrant } from "../gate/Refusals.ts"
import { isJson } from "../gate/RequestChecks.ts"
import { noteInterrupted } from "../gate/RequestContext.ts"

export { Problems }

/** A member of the payload as a member of the body. */
const inBody = ({ message, path }: InvalidMember) => ({ path: ["body", ...path].join("."), message })

const unknownRecord = "Whether the request was recorded is not known. Repeat it with the same idempotency key."

/** Implements `MutationRequest`. `MutationEndpoints.layer` contains it. @internal */
export const MutationRequestLayer: Layer.Layer<MutationRequest, never, Problems> = Layer.effect(
  MutationRequest,
  Effect.map(Problems, (problems) => {
    const examine = Effect.fnUntraced(function*(options: Options) {
      const context = yield* Effect.context<HttpServerRequest | ParsedSearchParams | RouteContext>()
      const request = Context.get(context, HttpServerRequest)
      const header = request.headers[idempotencyKeyHeader] ?? ""
      if (header.trim() === "") return yield* problems.fail("idempotency_key_required")
      const key = parseIdempotencyKey(header)
      if (key === null) return yield* refuseFields(problems, yield* findInvalidFields(options))
      if (!isJson(request.headers)) {
        return yield* problems.fail("unsupported_media_type", {
          detail: "The endpoint reads application/json. The Content-Type of the request is another one."
        })
      }
      const hasQuery = Object.keys(Context.get(context, ParsedSearchParams)).length > 0
      if (options.endpoint.query === undefined && hasQuery) {
        return yield* refuseFields(problems, yield* findInvalidFields(options))
      }
      return key
    })

    return MutationRequest.of((httpEffect, options) =>
      Effect.flatMap(Effect.tap(examine(options), noteInterrupted(unknownRecord)), (key) =>
        httpEffect.pipe(
          Effect.provideService(CurrentKey, key),
          Effect.provideService(EndpointTerms, Context.get(options.endpoint.annotations, EndpointTerms))
        ))
    )
  })
)

/** The work of a financial request, and the scope that a grant needs for it. */
export interface Work {
  readonly type: typeof OperationType.Type
  readonly scope: Scope
  /** The provider's adapter receives it. Repetitions are compared by it. */
  readonly payload: Schema.Json
  /** The terms of this work. Default: what the endpoint declares. */
  readonly terms?: Terms
}

/** Why the ledger did not accept a financial request. */
type AcceptanceError =
  | GrantRefusal
  | BindingConflict
  | InvalidFinancialRequest
  | LimitRefusal
  | StoreUnavailable

type Refused = ProblemOf<
  | (typeof refusedGrants)[number]
  | (typeof refusedByLimits)[number]
  | "invalid_token"
  | "invalid_request"
  | "idempotency_key_reused"
  | "service_unavailable"
>

/** Accepts work for the current request. This is all that a handler behind `Gate` and `MutationRequest` needs. */
export class MutationEndpoints extends Context.Service<MutationEndpoints, {
  /**
   * Accepts the work under the grant and the idempotency key of the request, and returns the operation. A repetition of
   * the same request returns the operation of the first, at any later time, with `Idempotent-Replayed: true`.
   *
   * If the provider of the grant cannot carry out the payload (`ProviderPayloads`), fails with `invalid_request` (422). Its
   * `fields` name members of the payload below `body`. Those paths are right for an endpoint whose body is the payload.
   */
  readonly accept: (work: Work) => Effect.Effect<AcceptedOperation, Refused, CurrentGrant | CurrentKey>
  /** Fails with the problem for an error of the ledger. For handlers that call the ledger themselves. */
  readonly refuse: (error: AcceptanceError) => Effect.Effect<never, Refused>
}>()("financial-agents-gateway/server/mutations/MutationEndpoints") {
  /** The service, and the middleware of endpoints that `mutationEndpoint` declares. */
  static readonly layer: Layer.Layer<
    MutationEndpoints | MutationRequest | Gate,
    never,
    BaseUrl | GrantVerifier | Lifecycle | OperationLedger | RequestIds
  > = Layer.suspend(() =>
    Layer.mergeAll(
      Layer.effect(MutationEndpoints, make),
      MutationRequestLayer,
      GateLayer
    ).pipe(Layer.provide(Problems.layer))
  )
}

const make = Effect.gen(function*() {
  const baseUrl = yield* BaseUrl
  const ledger = yield* OperationLedger
  const problems = yield* Problems

  const refuse = (error: AcceptanceError): Effect.Effect<never, Refused> => {
    switch (error._tag) {
      case "BindingConflict":
        return problems.fail("idempotency_key_reused")
      case "InvalidFinancialRequest":
        return refuseFields(problems, (error.fields ?? [{ path: [], message: error.message }]).map(inBody))
      case "LimitExceeded":
      case "OperationNotCovered":
      case "PayeeNotAllowed":
      case "TermsRequired":
        return refuseByLimits(problems, error)
      case "StoreUnavailable":
        // Accepting submits nothing, so nothing is uncertain upstream. The key protects a repetition from a second
        // operation.
        return refuseForNow(problems, error, { detail: unknownRecord })
      default:
        return refuseGrant(problems, error)
    }
  }

  const answer = ({ created, operation }: Accepted, now: DateTime.Utc): AcceptedOperation => {
    const retryAfter = pollAfterSeconds(operation, now)
    return withHeaders({
      body: operation,
      headers: {
        location: `${baseUrl}/v1/operations/${operation.id}`,
        ...retryAfter === null ? {} : { "retry-after": retryAfter },
        ...created ? {} : { [idempotentReplayedHeader]: "true" as const }
      }
    })
  }

  const acceptAs = Effect.fn("MutationEndpoints.accept")(
    function*(grant: GrantIdentity, key: IdempotencyKey, { payload, scope, terms, type }: Work) {
      const termsOf = yield* EndpointTerms
      const declared = terms ?? (termsOf === null ? undefined : termsIn(termsOf, payload as never))
      const request = { type, key, payload, ...declared === undefined ? {} : { terms: declared } }
      const accepted = yield* ledger.accept(grant, request, scope)
      return answer(accepted, yield* DateTime.now)
    },
    Effect.catch(refuse)
  )

  return MutationEndpoints.of({
    refuse,
    accept: (work) =>
      Effect.flatMap(CurrentGrant, (grant) => Effect.flatMap(CurrentKey, (key) => acceptAs(grant, key, work)))
  })
})
