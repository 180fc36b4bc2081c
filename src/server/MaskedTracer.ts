/** Keeps tokens that clients put into URLs out of trace spans, and clients from the traces of others. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { HttpServerError, isHttpServerError, ResponseError } from "effect/http/HttpServerError"
import * as UrlParams from "effect/http/UrlParams"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { maskTokens } from "./gate/TokenMask.ts"

/** The attributes that hold a target, by the conventions of OpenTelemetry. */
const ofTarget = new Set(["url.full", "url.path", "url.query"])

/** Effect ends the span of a 5xx response with an error whose message contains the path. */
const maskError = (error: unknown): unknown =>
  isHttpServerError(error) && error.reason._tag === "ResponseError"
    ? new HttpServerError({
      reason: new ResponseError({
        request: error.request.modify({ url: maskTokens(error.request.url) }),
        response: error.reason.response
      })
    })
    : error

/** Changes the span itself: not every tracer could export a wrapper of another class. */
const mask = (span: Tracer.Span): Tracer.Span => {
  const attribute = span.attribute.bind(span)
  const end = span.end.bind(span)
  span.attribute = (key, value) =>
    attribute(key, typeof value === "string" && ofTarget.has(key) ? maskTokens(value) : value)
  span.end = (endTime, exit) =>
    end(endTime, Exit.isFailure(exit) ? Exit.failCause(Cause.map(exit.cause, maskError)) : exit)
  return span
}

type SpanOptions = Parameters<Tracer.Tracer["span"]>[0]

/**
 * A request begins a trace of its own, with a link to that of its caller ("Restart trace" of W3C Trace Context). Else a client could add
 * to the trace of another one, or hide its requests by a header that says that they are not sampled.
 */
const restart = (options: SpanOptions): SpanOptions => {
  const parent = Option.getOrUndefined(options.parent)
  if (options.kind !== "server" || parent?._tag !== "ExternalSpan") return options
  const links = [...options.links, { span: parent, attributes: {} }]
  return { ...options, parent: Option.none(), links, sampled: options.sampled || !parent.sampled }
}

/** Spans show only the names of query parameters: a value may be a token in the wrong place. */
const RedactedValues = Layer.succeed(UrlParams.CurrentRedactedNames, [/^/])

const MaskedSpans = Layer.effect(
  Tracer.Tracer,
  Effect.map(Effect.tracer, (tracer) =>
    // The native tracer exports nothing, and Effect creates no spans if it finds exactly that tracer.
    tracer === Tracer.nativeTracer
      ? tracer
      : Tracer.make({ span: (options) => mask(tracer.span(restart(options))), context: tracer.context }))
)

/** Wraps the current tracer: its spans show paths and queries as `maskTokens` returns them. Those of requests begin traces. */
export const MaskedTracer: Layer.Layer<never> = Layer.mergeAll(RedactedValues, MaskedSpans)
