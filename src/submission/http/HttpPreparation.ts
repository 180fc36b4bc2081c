/**
 * The steps of an adapter before it has a request to send: credentials, the decoded payload, the request. A failure proves
 * that nothing was sent.
 */
import type * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import {
  type InvalidMember,
  payloadDecoders,
  type PayloadSchemas,
  undeclaredMember
} from "../../domain/PayloadSchemas.ts"
import type { ProviderOperation } from "../../domain/Submission.ts"
import { withinTime } from "../../http/withinTime.ts"
import { causeName, describeThrown, errorName } from "./describeThrown.ts"
import { type HttpCredentials, NotEncodable } from "./HttpRequest.ts"

/** The adapter failed before it had a request to send. */
export class NotPrepared extends Data.TaggedError("NotPrepared")<{
  /** For logs. Contains no credential and no part of the payload. */
  readonly reason: string
}> {}

/** The first error or defect of a cause. Undefined after an interruption. */
const thrownIn = (cause: Cause.Cause<unknown>): unknown => {
  for (const reason of cause.reasons) {
    if (reason._tag !== "Interrupt") return reason._tag === "Fail" ? reason.error : reason.defect
  }
  return undefined
}

/**
 * Turns every failure and defect of building a request into `NotPrepared`. It quotes only `NotEncodable`, because other
 * errors may contain secrets.
 */
export const prepareRequest = <A>(request: Effect.Effect<A, unknown>): Effect.Effect<A, NotPrepared> =>
  Effect.catchCause(request, (cause) => {
    const thrown = thrownIn(cause)
    const detail = thrown instanceof NotEncodable ? thrown.reason : describeThrown(thrown)
    return Effect.fail(new NotPrepared({ reason: `the request cannot be encoded: ${detail}` }))
  })

/** Finds the credentials within the time limit. The failure names the error and its cause alone. */
export const prepareCredentials = (
  credentials: ((operation: ProviderOperation) => Effect.Effect<HttpCredentials, unknown>) | undefined,
  operation: ProviderOperation,
  within: Duration.Duration
): Effect.Effect<HttpCredentials, NotPrepared> => {
  if (credentials === undefined) return Effect.succeed({})
  let late: NotPrepared | undefined
  const orElse = () => {
    late = new NotPrepared({ reason: `no credentials within ${Duration.format(within)}` })
    return Effect.fail(late)
  }
  return Effect.suspend(() => withinTime(credentials(operation), { duration: within, orElse })).pipe(
    Effect.catchCause((cause) => {
      const thrown = thrownIn(cause)
      if (late !== undefined && thrown === late) return Effect.fail(late)
      const names = [errorName(thrown), causeName(thrown)].filter((name) => name !== null)
      return Effect.fail(new NotPrepared({ reason: ["no credentials", ...names].join(": ") }))
    })
  )
}

/** Most members that a reason names. */
const maxNamed = 8

/**
 * Describes invalid members for the log. The names of members that the schema does not declare come from the client, and
 * are omitted.
 */
const describeMembers = (members: ReadonlyArray<InvalidMember>): string => {
  const named = members.slice(0, maxNamed).map(({ message, path }) => {
    const known = message === undeclaredMember ? [...path.slice(0, -1), "*"] : path
    return known.length === 0 ? message : `${known.join(".")}: ${message}`
  })
  return [...named, ...members.length > maxNamed ? ["and others"] : []].join("; ")
}

/** Decodes stored payloads by the schema of the operation's type. Without schemas, every payload passes as it is. */
export const preparePayload = (
  schemas: PayloadSchemas | undefined
): (operation: ProviderOperation, payload: Schema.Json) => Effect.Effect<unknown, NotPrepared> => {
  if (schemas === undefined) return (_, payload) => Effect.succeed(payload)
  const decoders = payloadDecoders(schemas)
  return ({ type }, payload) => {
    const decode = decoders.get(type)
    if (decode === undefined) {
      return Effect.fail(new NotPrepared({ reason: `the adapter declares no payload of the type ${type}` }))
    }
    return Effect.catchCause(decode(payload), (cause) => {
      const thrown = thrownIn(cause)
      const detail = Array.isArray(thrown) ? describeMembers(thrown) : describeThrown(thrown)
      return Effect.fail(new NotPrepared({ reason: `the payload does not fit the schema of ${type}: ${detail}` }))
    })
  }
}
