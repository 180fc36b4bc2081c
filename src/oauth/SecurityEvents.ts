/**
 * Receives security event tokens (SET, RFC 8417), which another server posts about a resource that changed. An event is a hint: it proves
 * nothing.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { AuthorizationUnavailable } from "../domain/Credential.ts"
import { textUpTo } from "../domain/PayloadText.ts"
import { clockDifference, isCompactJwt, isRecent, type JsonVerifier } from "./JsonSignature.ts"

/** Whose events count. */
export interface SecurityEventOptions {
  /** The `iss` of the events: a URL of the sender. */
  readonly issuer: string
  /** Their `aud`: the name under which the sender knows the receiver. Most senders take the client id. */
  readonly audience: string
  /**
   * Age from which on an event is refused. Events do not expire (RFC 8417 §2.2), and a sender repeats one until its own maximum interval for
   * retries has passed: give a longer time. Default: one day.
   */
  readonly maxAge?: Duration.Input
}

/** The text is no event of this sender for this receiver. Answer 400: the sender does not repeat it. */
export class InvalidEvent extends Schema.TaggedError<InvalidEvent>()("InvalidEvent", {
  /** For the log. It holds nothing of the event. */
  reason: Schema.String
}) {}

/**
 * Takes the body of an event, and runs `hint` if it tells of a changed resource, for the first time. The id of a payment is the reference of
 * its operation; that of another resource is the reference of none. A repeated event succeeds without a hint, as do those of other types:
 * answer 202.
 *
 * Fails with `InvalidEvent`, or as `hint` does. Fails with `AuthorizationUnavailable` while the keys of the sender cannot be read. After the
 * latter two answer 503: the sender repeats the event.
 */
export type EventReceiver = <A, E, R>(
  body: string,
  hint: (payment: { readonly reference: string }) => Effect.Effect<A, E, R>
) => Effect.Effect<void, InvalidEvent | AuthorizationUnavailable | E, R>

/** The events of a sender that are hints. */
interface SecurityEventKind {
  /** The URI of the event, in `events`. */
  readonly event: string
  /** The member of its `subject` that has the id of the resource. */
  readonly subject: string
  readonly verifier: Pick<JsonVerifier, "compact">
}

const Name = textUpTo(128)

const claimsOf = ({ event, subject }: SecurityEventKind) =>
  Schema.fromJsonString(Schema.Struct({
    iss: Schema.String,
    aud: Schema.Union([Schema.String, Schema.Array(Schema.String)]),
    iat: Schema.Int,
    jti: Name,
    events: Schema.Struct({
      [event]: Schema.optionalKey(Schema.Struct({ subject: Schema.Struct({ [subject]: Name }) }))
    })
  }))

/** Most events that are remembered. Each has a signature of the sender, which so cannot fill the memory by itself. */
const mostRemembered = 10_000

/**
 * Makes the receiver of a sender's events. It remembers them in this process: a repetition that another process gets costs one status read at
 * most. Throws a `TypeError` if an option cannot be right.
 */
export const makeSecurityEventReceiver = (
  { audience, issuer, maxAge = "1 day" }: SecurityEventOptions,
  kind: SecurityEventKind
): EventReceiver => {
  for (const [setting, value] of Object.entries({ issuer, audience })) {
    if (!/^[\x20-\x7e]+$/u.test(value)) throw new TypeError(`${setting} must be set, to visible ASCII characters`)
  }
  const longest = Duration.toMillis(Duration.fromInputUnsafe(maxAge))
  const decode = Schema.decodeOption(claimsOf(kind))
  const refuse = (reason: string) => Effect.fail(new InvalidEvent({ reason }))
  /** By `jti`, the time of its receipt, the oldest first. */
  const received = new Map<string, number>()

  const remember = (jti: string, now: number): void => {
    received.set(jti, now)
    for (const [oldest, at] of received) {
      if (received.size <= mostRemembered && at >= now - longest - clockDifference) break
      received.delete(oldest)
    }
  }

  return Effect.fnUntraced(function*(body, hint) {
    if (!isCompactJwt(body)) return yield* refuse("no signed event")
    const payload = yield* Effect.catchTag(
      kind.verifier.compact(body, ["JOSE", "JWT", "secevent+jwt"]),
      "InvalidCredential",
      ({ reason }) => refuse(`an event ${reason}`)
    )
    const event = Option.getOrNull(decode(payload))
    if (event === null) return yield* refuse("an event of another form")
    if (event.iss !== issuer) return yield* refuse("an event of another issuer")
    if (![event.aud].flat().includes(audience)) return yield* refuse("an event for another audience")
    const now = yield* Clock.currentTimeMillis
    if (!isRecent(longest)(event.iat, now)) return yield* refuse("an event of another time: check the clock")
    const reference = event.events[kind.event]?.subject[kind.subject]
    if (reference === undefined || received.has(event.jti)) return
    yield* hint({ reference })
    // Only now: after a failed hint, the sender repeats the event.
    remember(event.jti, now)
  })
}
