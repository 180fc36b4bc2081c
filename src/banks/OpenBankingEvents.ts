/**
 * Event notifications of the Open Banking standard (Event Notification API 4.0): the bank posts a security event token (RFC 8417) about a
 * resource that changed, signed as its answers are, in the compact form. An event is a hint: it proves nothing.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { AuthorizationUnavailable } from "../domain/Credential.ts"
import { isCompactJwt } from "../oauth/CompactJwt.ts"
import { type BankKeys, clockDifference, makeVerifier, requireText } from "./OpenBankingSignature.ts"

/** Whose events count. */
export interface EventOptions {
  /** The keys of the bank: those of its answers. */
  readonly bank: BankKeys
  /** The `iss` of its events: a URL of the bank. */
  readonly issuer: string
  /** Their `aud`: the name under which the bank knows the receiver. Most banks take the client id. */
  readonly audience: string
  /**
   * Age from which on an event is refused. Events do not expire (RFC 8417 §2.2), and a bank repeats one until its own maximum interval for
   * retries has passed: give a longer time. Default: one day.
   */
  readonly maxAge?: Duration.Input
}

/** The text is no event of this bank for this receiver. Answer 400: the bank does not repeat it. */
export class InvalidEvent extends Schema.TaggedError<InvalidEvent>()("InvalidEvent", {
  /** For the log. It holds nothing of the event. */
  reason: Schema.String
}) {}

/**
 * Takes the body of an event notification, and runs `hint` if it tells of a changed resource, for the first time. The id of a payment is the
 * reference of its operation; that of another resource is the reference of none. A repeated event succeeds without a hint, as do those of other types: answer 202.
 *
 * Fails with `InvalidEvent`, or as `hint` does. Fails with `AuthorizationUnavailable` while the keys of the bank cannot be read. After the
 * latter two answer 503: the bank repeats the event.
 */
export type EventReceiver = <A, E, R>(
  body: string,
  hint: (payment: { readonly reference: string }) => Effect.Effect<A, E, R>
) => Effect.Effect<void, InvalidEvent | AuthorizationUnavailable | E, R>

const resourceUpdate = "urn:uk:org:openbanking:events:resource-update"

const Name = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(128))

const Event = Schema.fromJsonString(Schema.Struct({
  iss: Schema.String,
  aud: Schema.Union([Schema.String, Schema.Array(Schema.String)]),
  iat: Schema.Int,
  jti: Name,
  events: Schema.Struct({
    [resourceUpdate]: Schema.optionalKey(
      Schema.Struct({ subject: Schema.Struct({ "http://openbanking.org.uk/rid": Name }) })
    )
  })
}))
const decode = Schema.decodeOption(Event)

/** Most events that are remembered. Each has a signature of the bank, which so cannot fill the memory by itself. */
const mostRemembered = 10_000

/**
 * Makes the receiver of a bank's events. It remembers them in this process: a repetition that another process gets costs one status read at
 * most. Dies with a `TypeError` if the options cannot be right.
 */
export const makeEventReceiver = Effect.fnUntraced(function*(
  { audience, bank, issuer, maxAge = "1 day" }: EventOptions
): Effect.fn.Return<EventReceiver, never, HttpClient.HttpClient> {
  const longest = yield* Effect.sync(() => {
    requireText("issuer", issuer)
    requireText("audience", audience)
    return Duration.toMillis(Duration.fromInputUnsafe(maxAge))
  })
  const { verify } = yield* makeVerifier(bank)
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
    const [encoded, payload, signature] = body.split(".") as [string, string, string]
    yield* Effect.catchTag(
      verify({ protected: encoded, signature, payload: () => payload, types: ["JOSE", "JWT", "secevent+jwt"] }),
      "InvalidCredential",
      ({ reason }) => refuse(`an event ${reason}`)
    )
    const event = Option.getOrNull(decode(Buffer.from(payload, "base64url").toString("utf8")))
    if (event === null) return yield* refuse("an event of another form")
    if (event.iss !== issuer) return yield* refuse("an event of another issuer")
    if (![event.aud].flat().includes(audience)) return yield* refuse("an event for another audience")
    const now = yield* Clock.currentTimeMillis
    const age = now - event.iat * 1000
    if (age < -clockDifference || age > longest) return yield* refuse("an event of another time: check the clock")
    const update = event.events[resourceUpdate]
    if (update === undefined || received.has(event.jti)) return
    yield* hint({ reference: update.subject["http://openbanking.org.uk/rid"] })
    // Only now: after a failed hint, the bank repeats the event.
    remember(event.jti, now)
  })
})
