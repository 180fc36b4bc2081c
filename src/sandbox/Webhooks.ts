/**
 * The webhooks of the sandbox, signed as the Standard Webhooks specification says. Deliveries run beside the service, and end with
 * the sandbox.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { Webhook } from "standardwebhooks"
import type { BankEvent, Dialect } from "./Dialect.ts"
import { digest, type FaultSettings, type InstructedFaults, strikesOn, type StruckFaults } from "./Faults.ts"
import type { SubmissionKey } from "./Protocol.ts"
import { sandboxWebhook } from "./SandboxDialect.ts"
import { knownAt, type KnownSubmission, type SandboxOutcome, succeedsAtOnce } from "./SandboxOutcome.ts"

/** The form of a symmetric secret in the Standard Webhooks specification: 24 to 64 bytes in Base64. */
const WebhookSecret = Schema.String.check(
  Schema.makeFilter((text) => {
    const bytes = /^whsec_(?<key>[A-Za-z0-9+/]+={0,2})$/u.exec(text)?.groups?.["key"]
    const size = bytes === undefined ? 0 : Buffer.from(bytes, "base64").length
    return size >= 24 && size <= 64
  }, { expected: "whsec_ and 24 to 64 bytes in Base64" })
)

/** Where webhooks go. */
export const WebhookSettings = Schema.Struct({
  url: Schema.String.check(
    Schema.makeFilter((text) => ["http:", "https:"].includes(URL.parse(text)?.protocol ?? ""), {
      expected: "an http or https URL"
    })
  ),
  secret: Schema.Redacted(WebhookSecret)
})
export type WebhookSettings = typeof WebhookSettings.Type

/** Submissions whose webhooks wait or are under way. The webhooks of further ones are not sent. */
const mostWaiting = 10_000
const concurrency = 16
const answerTimeout = "5 seconds"
/** Repeats an attempt that got no 2xx four times: after 0.5, 1, 2 and 4 seconds. */
const retries = { schedule: Schedule.exponential("500 millis"), times: 4 }

interface WebhooksOptions extends WebhookSettings {
  readonly seed: string
  readonly faults: () => FaultSettings
  readonly dialect: Dialect
}

/** An accepted submission, and when its outcome comes. */
interface Announced {
  readonly key: SubmissionKey
  readonly settlement: SandboxOutcome
  readonly instructed: InstructedFaults | undefined
  readonly echo: Schema.Json
}

/** The webhooks of a submission from an instant on, in the order of their times. */
const eventsOf = (seed: string, { echo, key, settlement }: Announced, now: number): ReadonlyArray<BankEvent> => {
  const { effective_at, returns_at, settles_at } = settlement
  const times = [
    ...succeedsAtOnce(settlement) ? [] : [["accepted", effective_at] as const],
    ...settles_at === null ? [] : [["settled", settles_at] as const],
    ...returns_at === undefined ? [] : [["returned", returns_at] as const]
  ]
  return times.filter(([, at]) => at >= now).map(([kind, at]) => ({
    id: `msg_${digest(seed, "webhook", key, kind).slice(0, 24)}`,
    kind,
    at,
    known: knownAt(key, settlement, echo, at)!
  }))
}

/** Runs until the scope closes. */
export const makeWebhooks = Effect.fnUntraced(function*({ dialect, faults, secret, seed, url }: WebhooksOptions) {
  const bodyOf = dialect.webhook ?? sandboxWebhook
  const signer = new Webhook(Redacted.value(secret))
  const forger = new Webhook(Buffer.from(digest(seed, "forged webhook"), "hex").toString("base64"))
  const requests = yield* Semaphore.make(concurrency)
  const fibers = yield* FiberSet.make<void>()
  const fork = yield* FiberSet.runtime(fibers)<never>()
  let waiting = 0

  const attempt = (signer: Webhook, event: BankEvent) =>
    Effect.gen(function*() {
      const { id } = event
      const body = JSON.stringify(bodyOf(event))
      // The timestamp is that of the attempt, so that a repetition is not too old.
      const seconds = Math.floor((yield* Clock.currentTimeMillis) / 1000)
      const headers = {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": String(seconds),
        "webhook-signature": signer.sign(id, new Date(seconds * 1000), body)
      }
      const status = yield* Effect.tryPromise(async (signal) => {
        const response = await fetch(url, { method: "POST", redirect: "manual", headers, body, signal })
        await response.body?.cancel()
        return response.status
      })
      if (status < 200 || status >= 300) return yield* Effect.fail(new Error(`the receiver answered ${status}`))
    }).pipe(Effect.timeout(answerTimeout), Semaphore.withPermits(requests, 1))

  const deliver = (event: BankEvent) =>
    attempt(signer, event).pipe(
      Effect.retry(retries),
      Effect.catchCause(() =>
        Effect.annotateLogs(
          Effect.logWarning("Webhook not delivered: the receiver gave no 2xx in five attempts"),
          { webhook: event.id }
        )
      )
    )

  /** Claims success, in the name of the sandbox. */
  const forge = (event: BankEvent) => {
    const { known: { status: { idempotency_key, reference } } } = event
    const known: KnownSubmission = { ...event.known, status: { reference, idempotency_key, status: "succeeded" } }
    return Effect.ignore(attempt(forger, { ...event, id: `${event.id}_forged`, kind: "settled", known }))
  }

  const send = Effect.fnUntraced(function*(events: ReadonlyArray<BankEvent>, strike: StruckFaults["find"]) {
    const delay = strike("webhook_delay")?.milliseconds ?? 0
    const isForged = strike("webhook_forge") !== null
    const isDuplicate = strike("webhook_duplicate") !== null
    for (const event of strike("webhook_reorder") === null ? events : events.toReversed()) {
      const wait = event.at + delay - (yield* Clock.currentTimeMillis)
      if (wait > 0) yield* Effect.sleep(wait)
      if (isForged) yield* forge(event)
      yield* deliver(event)
      if (isDuplicate) yield* deliver(event)
    }
  })

  return {
    /** Schedules the webhooks of an accepted submission that are still to come. Never waits. */
    announce: (announced: Announced, now: number): void => {
      const { instructed, key } = announced
      const strike = strikesOn(seed, faults, { key, stage: "submission", attempt: 1, instructed }).find
      const events = eventsOf(seed, announced, now)
      if (events.length === 0 || waiting >= mostWaiting || strike("webhook_lose") !== null) return
      waiting++
      fork(Effect.ensuring(send(events, strike), Effect.sync(() => waiting--)))
    }
  }
})

export type Webhooks = Effect.Success<ReturnType<typeof makeWebhooks>>
