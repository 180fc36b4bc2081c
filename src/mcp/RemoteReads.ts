/** The reads of agents by requests to a gateway. The gateway checks the grant of the access token at each read. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import type * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import { Api } from "../api/Api.ts"
import { type ClientOptions, makeClient } from "../api/Client.ts"
import { isProblem } from "../api/Problems.ts"
import { isLost, type Prefer, repeated } from "../api/RepeatedCalls.ts"
import type { Operation, OperationId } from "../domain/Operation.ts"
import { AgentReads, ReadRefused } from "./AgentReads.ts"

interface RemoteReadsOptions extends ClientOptions {
  /** Seconds beyond its wait in which a read bridges failures of the connection and of the gateway by repetition; 8 by default. */
  readonly patience?: number
  /** Runs for each read that got no answer of the contract. The cause may quote the address of the gateway, but not the token. */
  readonly onFailure?: (cause: Cause.Cause<unknown>) => Effect.Effect<void>
}

/** How long an answer may take beyond the wait, in seconds. An agent gives up soon after. */
const answerTime = 10

/** The refusal in a problem, or why there is no answer. A body that ends early leaves two errors in the cause. */
const refusalOf = (errors: ReadonlyArray<unknown>, baseUrl: string): ReadRefused => {
  const problem = errors.find(isProblem)
  if (problem !== undefined) return new ReadRefused({ code: problem.code, detail: problem.detail })
  return errors.some((error) => isLost(error) || Cause.isTimeoutError(error))
    ? new ReadRefused({ code: "gateway_unreachable", detail: `The gateway at ${baseUrl} did not answer.` })
    : new ReadRefused({
      code: "response_contract_failed",
      detail: "The answer does not fit the contract of the gateway. Check the address of the gateway."
    })
}

const make = Effect.fnUntraced(function*({ onFailure, patience = 8, ...options }: RemoteReadsOptions) {
  const { operations } = yield* makeClient(Api, options)
  /** The entity tags of what was read. */
  const tags = new WeakMap<Operation, string>()

  /** Sends a read, and again while that may help. */
  const send = <A, E>(read: (prefer: Prefer) => Effect.Effect<A, E>, wait = 0): Effect.Effect<A, ReadRefused> =>
    repeated(read, { wait, answerTime, within: wait + patience }, () => new Cause.TimeoutError()).pipe(
      Effect.provideService(FetchHttpClient.RequestInit, { cache: "no-store" }),
      Effect.catchCause((cause) => {
        const errors = cause.reasons.filter(Cause.isFailReason).map(({ error }) => error)
        // Interruptions and defects stay what they are.
        if (errors.length === 0) return Effect.failCause(cause as Cause.Cause<never>)
        const reported = errors.some(isProblem) ? undefined : onFailure?.(cause)
        return Effect.andThen(reported ?? Effect.void, refusalOf(errors, options.baseUrl))
      })
    )

  /** Reads an operation. It waits for another form than the known one. */
  const read = (id: OperationId, known?: Operation, seconds?: number) => {
    const tag = known === undefined ? undefined : tags.get(known)
    return Effect.map(
      send(
        (prefer) =>
          operations.get({
            params: { id },
            headers: tag === undefined ? {} : { "if-none-match": tag, ...prefer }
          }),
        seconds
      ),
      // A 304 has no body: the operation has not changed.
      ({ body: operation = known!, headers }) => {
        tags.set(operation, headers.etag)
        return operation
      }
    )
  }

  return AgentReads.of({
    list: (query) => Effect.map(send(() => operations.list({ query })), ({ body }) => body),
    get: (id) => read(id),
    next: (known, seconds) => read(known.id, known, seconds),
    changes: (query) => Effect.map(send(() => operations.changes({ query, headers: {} })), ({ body }) => body),
    limits: Effect.map(send(() => operations.limits()), ({ body }) => body)
  })
})

/** Reads with an access token at a base URL, which `parseBaseUrl` has accepted. */
export const layer = (options: RemoteReadsOptions): Layer.Layer<AgentReads, never, HttpClient.HttpClient> =>
  Layer.effect(AgentReads, make(options))
