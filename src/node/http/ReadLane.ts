/**
 * A lane in front of the router, for the ordinary reads: an operation by its id, the first page of all operations, and health.
 *
 * The router, the schemas of the parameters and the frames of the middleware cost several times what such a read costs. The
 * lane decides from the request line and the headers, by the functions that the gate uses, and runs one fiber. It hands every
 * unusual request over to the router, untouched. docs/performance.md has the cost of each part; a property test compares both
 * ways.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { ClientAbort } from "effect/http/HttpServerError"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import * as Tracer from "effect/Tracer"
import type { IncomingMessage, ServerResponse } from "node:http"
import { OperationList } from "../../api/OperationsApi.ts"
import type { ProblemCode } from "../../api/ProblemKinds.ts"
import type { Problem } from "../../api/Problems.ts"
import { HealthResponse } from "../../api/SystemApi.ts"
import { type JsonEncoder, makeJsonEncoder } from "../../dispatch/JsonEncoder.ts"
import type { Credential } from "../../domain/Credential.ts"
import type { GrantIdentity } from "../../domain/Grant.ts"
import { isOperationId, Operation, type OperationId } from "../../domain/Operation.ts"
import type { RequestId } from "../../domain/RequestId.ts"
import { exchangeOf, HttpMetrics } from "../../metrics/HttpMetrics.ts"
import { makeAdmit } from "../../server/gate/Admission.ts"
import { makeVerify } from "../../server/gate/Authorization.ts"
import { BaseUrl } from "../../server/gate/BaseUrl.ts"
import { answerFailure } from "../../server/gate/FailureResponses.ts"
import { Lifecycle } from "../../server/gate/Lifecycle.ts"
import { Problems } from "../../server/gate/ProblemResponses.ts"
import { RateLimits } from "../../server/gate/RateLimits.ts"
import { withhold } from "../../server/gate/Refusals.ts"
import { asksForJson, lacksHost, readAuthorization, type RequestHeaders } from "../../server/gate/RequestChecks.ts"
import { headersOfEveryResponse, type RequestInfo, withRequest } from "../../server/gate/RequestContext.ts"
import { makeOperationReads } from "../../server/reads/OperationReads.ts"
import { listResponse, readResponse } from "../../server/reads/OperationResponses.ts"
import type { OperationStore } from "../../services/OperationStore.ts"
import { RequestIds } from "../../services/RequestIds.ts"
import type { TokenCipher } from "../../services/TokenCipher.ts"
import { AcceptedCredentials } from "../../services/verification/AcceptedCredentials.ts"
import type { GrantVerifier } from "../../services/verification/GrantVerifier.ts"
import { NodeListener } from "./NodeListener.ts"

/** A response as `node:http` takes it. */
interface PlainResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/** What an ordinary request asks for. */
type Target = "health" | "list" | OperationId

const listPath = "/v1/operations"

const targetOf = (url: string): Target | null => {
  if (url === "/healthz") return "health"
  if (!url.startsWith(listPath)) return null
  if (url.length === listPath.length) return "list"
  const id = url.slice(listPath.length + 1)
  return url[listPath.length] === "/" && isOperationId(id) ? id : null
}

/** Headers with which a request is unusual. */
const unusual = ["content-length", "transfer-encoding", "expect", "upgrade", "dpop", "prefer"]

const isOrdinary = ({ httpVersion, method }: IncomingMessage, headers: RequestHeaders): boolean =>
  method === "GET" && httpVersion === "1.1" && !lacksHost(headers) && asksForJson(headers)
  && unusual.every((name) => headers[name] === undefined)

/** The other ones of `headersOfEveryResponse`: the responses of the lane say how they are cached. */
const { "cache-control": _, ...securityHeaders } = headersOfEveryResponse

/** A problem, whose body is text. */
const fromEffect = ({ body, headers, status }: HttpServerResponse.HttpServerResponse): PlainResponse => ({
  status,
  headers,
  body: body._tag === "Uint8Array" ? body.body : ""
})

/** Tells the metrics the route of a request, so that they need not find it again. Null: there are none. */
const makeNoteRoute = (metrics: HttpMetrics | null) => {
  if (metrics === null) return null
  const health = metrics.route("/healthz")
  const list = metrics.route(listPath)
  const one = metrics.route(`${listPath}/:id`)
  return (request: IncomingMessage, target: Target): void => {
    const exchange = exchangeOf(request)
    if (exchange !== undefined) exchange.route = target === "health" ? health : target === "list" ? list : one
  }
}

const noteProblem = (request: IncomingMessage, code: ProblemCode): void => {
  const exchange = exchangeOf(request)
  if (exchange !== undefined) exchange.code = code
}

const listEncoder = makeJsonEncoder(OperationList)
const operationEncoder = makeJsonEncoder(Operation)

const makeLane = Effect.gen(function*() {
  const admit = yield* makeAdmit
  const verify = yield* makeVerify
  const reads = yield* makeOperationReads
  const lifecycle = yield* Lifecycle
  const problems = yield* Problems
  const baseUrl = yield* BaseUrl
  const ids = yield* RequestIds
  const services = yield* Effect.context<never>()
  const noteRoute = makeNoteRoute(yield* HttpMetrics)

  const health: PlainResponse = {
    status: 200,
    headers: { "content-type": "application/json", "cache-control": "no-store" },
    body: JSON.stringify(Schema.encodeSync(HealthResponse)({ status: "ok" }))
  }

  const encode = (
    encoder: JsonEncoder,
    { body, headers }: { readonly body: unknown; readonly headers: Readonly<Record<string, string | number>> }
  ): Effect.Effect<PlainResponse, Problem> => {
    // The headers have no characters to escape.
    const own = headers as Readonly<Record<string, string>>
    if (body === undefined) return Effect.succeed({ status: 304, headers: own, body: "" })
    return Effect.matchEffect(encoder.encode(body), {
      onFailure: (error) => withhold(problems, error),
      onSuccess: (text) =>
        Effect.succeed({ status: 200, headers: { "content-type": "application/json", ...own }, body: text })
    })
  }

  const read = (target: Exclude<Target, "health">, credential: Credential, ifNoneMatch: string | undefined) => {
    const run = (grant: GrantIdentity): Effect.Effect<PlainResponse, Problem> =>
      target === "list"
        ? Effect.flatMap(reads.list(grant, {}), (list) => encode(listEncoder, listResponse(list)))
        : Effect.flatMap(
          Effect.zip(reads.find(grant, target), DateTime.now),
          ([operation, now]) => encode(operationEncoder, readResponse(operation, { ifNoneMatch, now, waited: null }))
        )
    const admitted = admit(({ forClient }) =>
      Effect.flatMap(verify(credential), (grant) => forClient(grant.client_id, run(grant)))
    )
    return Effect.catchCause(admitted, (cause) => Effect.map(answerFailure(problems, cause), fromEffect))
  }

  const send = (response: ServerResponse, { body, headers, status }: PlainResponse, id: RequestId): void => {
    if (response.destroyed) return
    // A kept-alive connection would delay the server's shutdown.
    if (lifecycle.isDraining()) response.shouldKeepAlive = false
    const own = { ...headers, ...securityHeaders, "x-request-id": id }
    const length = Buffer.byteLength(body)
    // In the order of the router's responses. A problem has its length already, and 304 has none.
    const isWhole = status === 304 || "content-length" in headers
    response.writeHead(
      status,
      isWhole ? own : { "content-type": headers["content-type"], "content-length": length, ...own }
    )
    // Text of ASCII alone is the same in both encodings, and Node writes this one faster.
    response.end(body, length === body.length ? "latin1" : "utf8")
  }

  /** Runs the read in a fiber, which ends early if the client leaves. */
  const serve = (effect: Effect.Effect<PlainResponse>, response: ServerResponse, info: RequestInfo): void => {
    const fiber = Effect.runForkWith(withRequest(services, info))(effect, { uninterruptible: true })
    const answer = (exit: Exit.Exit<PlainResponse>) => {
      if (Exit.isFailure(exit)) return
      if (info.problem !== undefined) noteProblem(response.req, info.problem)
      try {
        send(response, exit.value, info.id)
      } catch {
        // An error would leave the fiber, and end the database connection whose answer resumed it.
        response.destroy()
      }
    }
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return answer(exit)
    fiber.addObserver(answer)
    response.on("close", () => {
      if (!response.writableEnded) fiber.interruptUnsafe(undefined, ClientAbort.annotation)
    })
  }

  /** Answers an ordinary read. False for every other request, which it leaves untouched. */
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    const url = request.url ?? ""
    const target = targetOf(url)
    // The cast: with `joinDuplicateHeaders`, the only header with several values is Set-Cookie, which no request has.
    const headers = request.headers as RequestHeaders
    if (target === null || !isOrdinary(request, headers) || lifecycle.isDraining()) return false
    const id = ids.of(headers["x-request-id"])
    if (target === "health") {
      noteRoute?.(request, target)
      send(response, health, id)
      return true
    }
    const authorization = readAuthorization(headers)
    if (authorization?.scheme !== "Bearer") return false
    const credential: Credential = {
      scheme: "Bearer",
      token: Redacted.make(authorization.token),
      proof: null,
      certificate: null,
      method: "GET",
      url: baseUrl + url,
      resource: null
    }
    noteRoute?.(request, target)
    serve(read(target, credential, headers["if-none-match"]), response, { id, path: url, scheme: "Bearer" })
    return true
  }
})

/**
 * Serves the ordinary reads of `NodeListener`. It is off on any other listener, and where a request needs more than it does: with
 * quotas, with client certificates, and while spans are created. Requests on it do not pass the middleware of a router.
 */
export const layer: Layer.Layer<
  never,
  never,
  BaseUrl | GrantVerifier | Lifecycle | OperationStore | Problems | RequestIds | TokenCipher
> = Layer.effectDiscard(Effect.gen(function*() {
  const listener = Option.getOrNull(yield* Effect.serviceOption(NodeListener))
  const isOff = (yield* RateLimits) !== null || (yield* AcceptedCredentials).certificates !== null
    || ((yield* References.TracerEnabled) && (yield* Effect.tracer) !== Tracer.nativeTracer)
  if (listener === null || isOff) return
  const lane = yield* makeLane
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      listener.lane = lane
    }),
    () =>
      Effect.sync(() => {
        listener.lane = null
      })
  )
}))
