/**
 * The one way by which endpoints behind a gate read a body: it arrives without a slot, within a time, and within bounds of its own
 * for the client and for the bytes of all clients. Start at `makeGuardBody`.
 */
import * as Effect from "effect/Effect"
import { isHttpServerError } from "effect/http/HttpServerError"
import type { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as Multipart from "effect/http/Multipart"
import * as Stream from "effect/Stream"
import type { Problem } from "../../api/Problems.ts"
import { bodyLimits, findExcess } from "../../domain/JsonLimits.ts"
import { readBody } from "../../http/JsonExchange.ts"
import { HttpMetrics } from "../../metrics/HttpMetrics.ts"
import { clientAddress } from "./ClientAddress.ts"
import { type ArrivingBody, Lifecycle, type RunningRequest } from "./Lifecycle.ts"
import { Problems } from "./ProblemResponses.ts"
import { RateLimits } from "./RateLimits.ts"
import { namesOtherCharset } from "./RequestChecks.ts"

/** Largest body, in bytes: 64 KiB. */
export const maxBody = 65_536

const refusals = {
  saturated: "Too many requests are running.",
  client_saturated: "The client has too many running requests.",
  body_saturated: "Too many bodies of the client are arriving.",
  bytes_saturated: "The arriving bodies have too many bytes in all."
}

/** The members of a request that its body comes from. */
type Incoming = Pick<HttpServerRequest, "headers" | "remoteAddress" | "source" | "stream">

/** Whether all of the body is in the memory of the process. Only `node:http` tells. */
const hasArrived = ({ source }: Incoming): boolean => "complete" in source && source.complete === true

/** Without `fatal`, two bodies that are not UTF-8 would become one text, and the key of the first would answer the second. */
const decoder = new TextDecoder("utf-8", { fatal: true })

/** The text of bytes in UTF-8; null if they are not. */
const decodeText = (bytes: Uint8Array): string | null => {
  try {
    return decoder.decode(bytes)
  } catch {
    return null
  }
}

/** Media types of text that is no JSON. */
const otherText = /^(?:text\/plain|application\/x-www-form-urlencoded)[ \t]*(?:;|$)/i

/** What a chunk takes in memory beside its bytes. */
const chunkOverhead = 256

/**
 * Makes the function that has a request read its body in this way, whichever member of the request a handler reads. Reads fail with
 * problems as defects, because the types of the members have no place for them; the gate answers with them.
 *
 * The request frees its slot while the body arrives, and takes one again before any work. So unfinished bodies keep no other
 * request from its slot. A body that has arrived already needs no place among the arriving ones.
 */
export const makeGuardBody = Effect.gen(function*() {
  const lifecycle = yield* Lifecycle
  const problems = yield* Problems
  const metrics = yield* HttpMetrics
  const { bodyTimeout } = lifecycle.options
  const addressOf = (yield* RateLimits)?.addressOf ?? clientAddress([])

  const refuse = (reason: keyof typeof refusals) =>
    Effect.suspend(() => {
      metrics?.refuse(reason === "bytes_saturated" ? "body_saturated" : reason)
      return problems.fail("service_unavailable", { detail: refusals[reason], cause: reason })
    })
  const tooLarge = problems.fail("payload_too_large", { detail: `The body is longer than ${maxBody} bytes.` })
  const tooLate = problems.fail("request_timeout", {
    detail: `The body did not arrive in full within ${bodyTimeout} milliseconds.`
  })
  /** Null as `body`: it has arrived. */
  const collect = (request: Incoming, body: ArrivingBody | null): Effect.Effect<Uint8Array, Problem> =>
    Effect.catch(
      readBody(
        body === null
          ? request.stream
          : Stream.tap(request.stream, ({ length }) =>
            body.add(length + chunkOverhead) ? Effect.void : refuse("bytes_saturated")),
        maxBody
      ),
      (error): Effect.Effect<never, Problem> => {
        if (isHttpServerError(error)) {
          return problems.fail("malformed_request", { detail: "The body ended early." })
        }
        return error._tag === "InvalidBody" ? tooLarge : Effect.fail(error)
      }
    )

  const receive = (request: Incoming, slot: RunningRequest | null): Effect.Effect<Uint8Array, Problem> =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        const body = lifecycle.openBody(slot?.client ?? null, addressOf(request))
        if (body !== null && slot !== null) lifecycle.pause(slot)
        return body
      }),
      (body) =>
        body === null ? refuse("body_saturated") : Effect.timeoutOrElse(Effect.interruptible(collect(request, body)), {
          duration: bodyTimeout,
          orElse: () => tooLate
        }),
      (body) => Effect.sync(() => body?.close())
    ).pipe(Effect.tap(() => {
      const reason = slot === null ? null : lifecycle.proceed(slot)
      return reason === null ? Effect.void : refuse(reason)
    }))

  const read = (request: Incoming, slot: RunningRequest | null): Effect.Effect<Uint8Array, Problem> =>
    Effect.suspend(() => {
      if (Number(request.headers["content-length"] ?? 0) > maxBody) return tooLarge
      if (hasArrived(request)) return collect(request, null)
      // The parser may be in the midst of the bytes with which the headers came.
      return Effect.andThen(
        Effect.yieldNow,
        Effect.suspend(() => hasArrived(request) ? collect(request, null) : receive(request, slot))
      )
    })

  const unfit = (path: string, message: string) => problems.fail("invalid_request", { fields: [{ path, message }] })

  /** A text in UTF-8, within the limits of JSON, or of a media type that is none: an endpoint may read any other as JSON. */
  const textOf = (headers: Incoming["headers"], bytes: Uint8Array): Effect.Effect<string, Problem> => {
    if (namesOtherCharset(headers)) return unfit("header.content-type", "Expected charset=utf-8, or no charset")
    const text = decodeText(bytes)
    if (text === null) return unfit("body", "Expected text in UTF-8")
    const excess = otherText.test(headers["content-type"] ?? "") ? null : findExcess(text, bodyLimits)
    return excess === null ? Effect.succeed(text) : unfit(["body", ...excess.path].join("."), excess.message)
  }

  /** Null as `slot`: the request has none. */
  return (request: HttpServerRequest, slot: RunningRequest | null): void => {
    const { headers, remoteAddress, source, stream } = request
    let known: Uint8Array | null = null
    const bytes = Effect.suspend(() =>
      known === null
        ? Effect.tap(read({ headers, remoteAddress, source, stream }, slot), (all) =>
          Effect.sync(() => void (known = all)))
        : Effect.succeed(known)
    )
    const whole = Stream.unwrap(Effect.map(Effect.orDie(bytes), (all) => Stream.make(all)))
    const parts = Stream.pipeThroughChannel(whole, Multipart.makeChannel(headers))
    // The other members of the body are made of these.
    const guarded: Partial<HttpServerRequest> = {
      arrayBuffer: Effect.orDie(Effect.map(bytes, (all) => all.slice().buffer)),
      text: Effect.orDie(Effect.flatMap(bytes, (all) => textOf(headers, all))),
      stream: whole,
      multipartStream: parts,
      multipart: Multipart.toPersisted(parts)
    }
    for (const [name, value] of Object.entries(guarded)) Object.defineProperty(request, name, { value })
  }
})
