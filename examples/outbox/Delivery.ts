/** Posts webhooks until the receiver acknowledges them. */
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { HeldPosition, PositionLost } from "./Position.ts"
import { headersOf, signingKeys, type Webhook } from "./Webhook.ts"

/** The receiver did not acknowledge the webhook. */
class NotAcknowledged extends Schema.TaggedError<NotAcknowledged>()("NotAcknowledged", {
  reason: Schema.String,
  /** Milliseconds that the receiver asked for. 0: it did not ask. */
  retryAfter: Schema.Number
}) {
  static because(reason: string, retryAfter = 0): Effect.Effect<never, NotAcknowledged> {
    return Effect.fail(new NotAcknowledged({ reason, retryAfter }))
  }
}

/** The receiver cannot ask for more than this, in milliseconds. */
const longestWait = 3_600_000

/** Milliseconds of `Retry-After` (RFC 9110 §10.2.3): seconds or a date. 0 if the header is missing or malformed. */
const retryAfterOf = ({ headers }: HttpClientResponse, now: number): number => {
  const text = headers["retry-after"] ?? ""
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isNaN(wait) ? 0 : Math.min(longestWait, Math.max(0, wait))
}

/** From half a second to a minute, with jitter, and never sooner than the receiver asked for. */
const backoff = Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced("1 minute")]).pipe(
  Schedule.jittered,
  Schedule.setInputType<NotAcknowledged | PositionLost>(),
  Schedule.modifyDelay(({ duration, input }) =>
    Effect.succeed(
      input._tag === "PositionLost" ? duration : Duration.max(duration, Duration.millis(input.retryAfter))
    )
  )
)

/** Any status 2xx is an acknowledgement, with any body or none. */
const receive = Effect.fnUntraced(function*(response: HttpClientResponse) {
  // Reads the body to its end, so that the connection serves the next attempt.
  yield* Effect.ignore(Stream.runDrain(response.stream))
  if (response.status >= 200 && response.status < 300) return
  const now = yield* Clock.currentTimeMillis
  yield* NotAcknowledged.because(`status ${response.status}`, retryAfterOf(response, now))
})

const make = Effect.gen(function*() {
  const client = HttpClient.withScope(yield* HttpClient.HttpClient)
  const url = yield* Config.URL("WEBHOOK_URL")
  const keys = yield* signingKeys

  const attempt = Effect.fnUntraced(
    function*(webhook: Webhook) {
      const seconds = Math.floor((yield* Clock.currentTimeMillis) / 1000)
      const request = HttpClientRequest.post(url).pipe(
        HttpClientRequest.setHeaders(headersOf(webhook, seconds, keys)),
        HttpClientRequest.bodyText(webhook.body, "application/json")
      )
      yield* Effect.flatMap(client.execute(request), receive)
    },
    Effect.scoped,
    // The client's errors name the URL, which may contain a secret.
    Effect.catchTag("HttpClientError", () => NotAcknowledged.because("no answer")),
    Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
    Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" })
  )

  const deliver = (webhook: Webhook, position: HeldPosition) =>
    position.whileHeld(attempt(webhook)).pipe(
      Effect.catchTag("TimeoutError", () => NotAcknowledged.because("timeout")),
      Effect.tapErrorTag("NotAcknowledged", ({ reason }) =>
        Effect.logWarning("Receiver did not acknowledge a webhook", { webhook: webhook.id, reason })),
      Effect.retry({
        schedule: backoff,
        while: ({ _tag }) =>
          _tag === "NotAcknowledged"
      }),
      // The schedule has no end.
      Effect.catchTag("NotAcknowledged", Effect.die)
    )
  return { deliver }
})

export class Delivery extends Context.Service<Delivery, {
  /**
   * Posts the webhook until the receiver acknowledges it. An interruption waits for the attempt under way. Fails only if another
   * publisher may hold the position.
   */
  readonly deliver: (webhook: Webhook, position: HeldPosition) => Effect.Effect<void, PositionLost>
}>()("examples/outbox/Delivery") {
  /** Posts to WEBHOOK_URL, signed with WEBHOOK_SECRET. */
  static readonly layer = Layer.effect(Delivery, Effect.map(make, (delivery) => Delivery.of(delivery)))
}
