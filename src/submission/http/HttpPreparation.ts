/**
 * The steps of an adapter before it has a request to send: credentials, the decoded payload, the request. A failure proves
 * that nothing was sent. It is described without the message of an error, which may quote the payload or a credential.
 */
import type * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { InvalidMember } from "../../domain/InvalidMember.ts"
import { pauseReasons } from "../../domain/operators/FiguresForm.ts"
import { payloadDecoders, type PayloadSchemas, undeclaredMember } from "../../domain/PayloadSchemas.ts"
import type { ProviderOperation } from "../../domain/Submission.ts"
import { withinTime } from "../../http/exchangeLimits.ts"
import { readMember } from "../../http/RequestFailure.ts"
import { type HttpCredentials, NotEncodable, SameForAll } from "./HttpRequest.ts"

const firstName = (error: unknown, members: ReadonlyArray<string>): string | null => {
  for (const member of members) {
    const name = readMember(error, member)
    if (typeof name === "string" && /^[A-Za-z_$][\w$./-]{0,127}$/.test(name)) return name
  }
  return null
}

/** The name of an error, or the tag of a tagged one. Null if the value has neither. */
const errorName = (error: unknown): string | null => firstName(error, ["_tag", "name"])

/** The code, the tag or the name of an error's `cause`, such as `ECONNREFUSED`. Null if it has none. */
const causeName = (error: unknown): string | null => firstName(readMember(error, "cause"), ["code", "_tag", "name"])

/** The folder of this library, in the form of `URL.pathname`. Null if a bundler moved this file. */
const libraryFolder = (() => {
  const folder = "submission/http/"
  const own = new URL(".", import.meta.url).pathname
  return own.endsWith(`/${folder}`) ? own.slice(0, -folder.length) : null
})()

/** Frames of this library, of Effect and of Node say nothing about the adapter. */
const isForeign = (frame: string): boolean =>
  !(libraryFolder !== null && frame.includes(libraryFolder))
  && !["/node_modules/effect/", "/node_modules/@effect/", "(node:"].some((part) => frame.includes(part))

/**
 * The position of the first stack frame outside of this library, such as `FirstBank.js:41:23`. Null if there is none. It
 * skips the lines of the message, because they may look like frames.
 */
const positionOf = (error: Error): string | null => {
  const { message, stack } = { message: readMember(error, "message"), stack: readMember(error, "stack") }
  if (typeof stack !== "string" || typeof message !== "string") return null
  const frames = stack.split("\n", 200).slice(message.split("\n").length)
  const frame = frames.find((line) => /^ {4}at .*:\d+:\d+\)?$/.test(line) && isForeign(line))
  const position = frame === undefined ? null : /[/\\( ]([\w.$@+-]{1,128}:\d+:\d+)\)?$/.exec(frame)
  return position?.[1] ?? null
}

/** Describes a thrown value by its name and position, such as `TypeError at FirstBank.js:41:23`. */
const describeThrown = (thrown: unknown): string => {
  const name = errorName(thrown) ?? (thrown instanceof Error ? "Error" : typeof thrown)
  const position = thrown instanceof Error ? positionOf(thrown) : null
  return position === null ? name : `${name} at ${position}`
}

export class NotPrepared extends Data.TaggedError("NotPrepared")<{
  /** For logs. Contains no credential and no part of the payload. */
  readonly reason: string
  /** The cause is of this operation alone, such as missing credentials of its owner. */
  readonly isOfOperation?: boolean
  /** The application does not permit it. */
  readonly isForbidden?: boolean
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
 * errors may contain secrets. The payload may be the cause, and its client chose it: so the failure is one of its operation, unless it is
 * `SameForAll`.
 */
export const prepareRequest = <A>(request: Effect.Effect<A, unknown>): Effect.Effect<A, NotPrepared> =>
  Effect.catchCause(request, (cause) => {
    const failure = thrownIn(cause)
    const isOfOperation = !(failure instanceof SameForAll)
    const thrown = isOfOperation ? failure : thrownIn(failure.failure)
    const detail = thrown instanceof NotEncodable ? thrown.reason : describeThrown(thrown)
    return Effect.fail(new NotPrepared({ reason: `the request cannot be encoded: ${detail}`, isOfOperation }))
  })

/** What a function of the application finds within the time limit. The failure names the error and its cause alone. */
const found = <A>(
  what: string,
  find: () => Effect.Effect<A, unknown>,
  within: Duration.Duration
): Effect.Effect<A, NotPrepared> => {
  let late: NotPrepared | undefined
  const orElse = () => {
    late = new NotPrepared({ reason: `no ${what} within ${Duration.format(within)}` })
    return Effect.fail(late)
  }
  return Effect.suspend(() => withinTime(find(), { duration: within, orElse })).pipe(
    Effect.catchCause((cause) => {
      const thrown = thrownIn(cause)
      if (late !== undefined && thrown === late) return Effect.fail(late)
      const names = [errorName(thrown), causeName(thrown)].filter((name) => name !== null)
      return Effect.fail(new NotPrepared({ reason: [`no ${what}`, ...names].join(": ") }))
    })
  )
}

/** A function of the application about an operation and its payload. */
type Question<A> = ((operation: ProviderOperation, payload: unknown) => Effect.Effect<A, unknown>) | undefined

export const prepareCredentials = (
  credentials: Question<HttpCredentials>,
  operation: ProviderOperation,
  payload: unknown,
  within: Duration.Duration
): Effect.Effect<HttpCredentials, NotPrepared> =>
  credentials === undefined
    ? Effect.succeed({})
    : found("credentials", () => credentials(operation, payload), within)

/** Fails unless the application permits the operation. Only `false` forbids it: anything else is a failure of the question. */
export const preparePermission = (
  isPermitted: Question<boolean>,
  operation: ProviderOperation,
  payload: unknown,
  within: Duration.Duration
): Effect.Effect<void, NotPrepared> =>
  isPermitted === undefined ? Effect.void : Effect.matchEffect(
    found("answer of isPermitted", () => isPermitted(operation, payload), within),
    {
      onFailure: (error) => Effect.fail(new NotPrepared({ ...error, isOfOperation: true })),
      onSuccess: (answer) =>
        answer === true ? Effect.void : Effect.fail(
          new NotPrepared({
            reason: "isPermitted does not permit the operation",
            isOfOperation: true,
            isForbidden: answer === false
          })
        )
    }
  )

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

/**
 * Decodes stored payloads by the schema of the operation's type. Without schemas, every payload passes as it is. One that does not fit is a
 * failure of its operation: its client chose it.
 */
export const preparePayload = (
  schemas: PayloadSchemas | undefined
): (operation: ProviderOperation, payload: Schema.Json) => Effect.Effect<unknown, NotPrepared> => {
  if (schemas === undefined) return (_, payload) => Effect.succeed(payload)
  const decoders = payloadDecoders(schemas)
  return ({ type }, payload) => {
    const decode = decoders.get(type)
    if (decode === undefined) {
      return Effect.fail(new NotPrepared({ reason: `${pauseReasons.type} ${type}`, isOfOperation: true }))
    }
    return Effect.catchCause(decode(payload), (cause) => {
      const thrown = thrownIn(cause)
      const detail = Array.isArray(thrown) ? describeMembers(thrown) : describeThrown(thrown)
      return Effect.fail(new NotPrepared({ reason: `${pauseReasons.payload} ${type}: ${detail}`, isOfOperation: true }))
    })
  }
}
