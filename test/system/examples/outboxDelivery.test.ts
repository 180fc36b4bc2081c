/** How the outbox example repeats a delivery: on the clock of the test, against a receiver in memory. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, ConfigProvider, DateTime, Effect, Layer, Logger } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { Delivery } from "../../../examples/outbox/Delivery.ts"
import { type HeldPosition, PositionLost } from "../../../examples/outbox/Position.ts"
import { webhookOf } from "../../../examples/outbox/Webhook.ts"
import { ClientId, PairwiseSubject, ResourceOwner } from "../../../src/domain/Grant.ts"
import { acceptedOperation, OperationId, OperationType } from "../../../src/domain/Operation.ts"
import { secret, stateIn } from "../../fixtures/examples/outboxReceiver.ts"

const webhook = { id: "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f.3.5d41402abc4b2a76", body: "{\"revision\":3}" }

const held = { whileHeld: (effect) => effect } as Pick<HeldPosition, "whileHeld"> as HeldPosition

interface Attempt {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly headers: Readonly<Record<string, string>>
}

/** Delivers against answers in this order, the last one 200, and yields the attempts and the log. */
const deliverAgainst = Effect.fnUntraced(function*(
  answers: ReadonlyArray<readonly [status: number, headers?: Record<string, string>]>,
  secrets = secret
) {
  const attempts: Array<Attempt> = []
  const log: Array<string> = []
  const client = HttpClient.make((request) =>
    Effect.map(Clock.currentTimeMillis, (at) => {
      const [status, headers = {}] = answers[attempts.length] ?? [200]
      attempts.push({ at, headers: request.headers })
      return HttpClientResponse.fromWeb(request, new Response(null, { status, headers }))
    })
  )
  const { deliver } = yield* Delivery.pipe(Effect.provide(Delivery.layer.pipe(
    Layer.provide(Layer.succeed(HttpClient.HttpClient, client)),
    Layer.provide(ConfigProvider.layer(
      ConfigProvider.fromUnknown({ WEBHOOK_URL: "http://receiver.example/secret-path", WEBHOOK_SECRET: secrets })
    ))
  )))
  const fiber = yield* deliver(webhook, held).pipe(
    Effect.provide(Logger.layer([Logger.make(({ message }) => void log.push(JSON.stringify(message)))])),
    Effect.forkChild
  )
  yield* TestClock.adjust("1 day")
  assert.strictEqual(fiber.pollUnsafe()?._tag, "Success")
  return { attempts, log, waits: attempts.slice(1).map(({ at }, index) => at - attempts[index]!.at) }
})

describe("A webhook of the outbox example", () => {
  it.effect("has an id that no earlier state of its operation had, also when a review ends", () =>
    Effect.gen(function*() {
      const id = OperationId.make("019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f")
      const operation = acceptedOperation(id, OperationType.make("payment"), yield* DateTime.now)
      const states = yield* Effect.forEach([false, true, false], (under_review) =>
        webhookOf({
          operation: { ...operation, under_review },
          client_id: ClientId.make("agent"),
          resource_owner: ResourceOwner.make("alice"),
          subject: PairwiseSubject.make("alice-as-seen")
        }))
      assert.strictEqual(states[0]!.body, states[2]!.body, "a receiver cannot tell them by their bodies")
      assert.strictEqual(new Set(states.map(({ id }) => id)).size, 3)
      assert.deepStrictEqual(states.map(({ id }) => stateIn(id)), [`${id}.1`, `${id}.1.review`, `${id}.1`])
    }))
})

describe("A delivery of the outbox example", () => {
  it.effect("is repeated after 0.5 s, 1 s and so on up to a minute, each with 20 % of jitter", () =>
    Effect.gen(function*() {
      const { attempts, waits } = yield* deliverAgainst(Array.from({ length: 12 }, () => [500]))
      assert.lengthOf(attempts, 13)
      for (const [index, wait] of waits.entries()) {
        const expected = Math.min(60_000, 500 * 2 ** index)
        assert.isAtLeast(wait, expected * 0.8 - 1)
        assert.isAtMost(wait, expected * 1.2 + 1)
      }
    }))

  it.effect("waits as long as Retry-After says, in seconds or until a date, and for an hour at most", () =>
    Effect.gen(function*() {
      const { waits } = yield* deliverAgainst([
        [503, { "retry-after": "100" }],
        [429, { "retry-after": new Date(100_000 + 300_000).toUTCString() }],
        [503, { "retry-after": "999999999" }],
        [503, { "retry-after": "soon" }]
      ])
      assert.deepStrictEqual(waits.slice(0, 3), [100_000, 300_000, 3_600_000])
      assert.isBelow(waits[3]!, 5000)
    }))

  it.effect("is acknowledged by a status 2xx alone: not by a redirect, and not by 410", () =>
    Effect.gen(function*() {
      for (const status of [100 + 200, 307, 400, 404, 410]) {
        assert.lengthOf((yield* deliverAgainst([[status]])).attempts, 2)
      }
      for (const status of [200, 202, 204]) assert.lengthOf((yield* deliverAgainst([[status]])).attempts, 1)
    }))

  it.effect("keeps its id, has the time of the attempt, and a signature for each secret", () =>
    Effect.gen(function*() {
      const { attempts: [first, second] } = yield* deliverAgainst(
        [[503, { "retry-after": "100" }]],
        `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw ${secret}`
      )
      assert.deepStrictEqual([first, second].map((attempt) => attempt!.headers["webhook-id"]), [webhook.id, webhook.id])
      assert.deepStrictEqual([first, second].map((attempt) => attempt!.headers["webhook-timestamp"]), ["0", "100"])
      assert.notStrictEqual(first!.headers["webhook-signature"], second!.headers["webhook-signature"])
      const key = yield* Effect.promise(() =>
        crypto.subtle.importKey(
          "raw",
          Buffer.from("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "base64"),
          { name: "HMAC", hash: "SHA-256" },
          false,
          ["verify"]
        )
      )
      const [signature, other] = second!.headers["webhook-signature"]!.split(" ").map((text) => text.split(","))
      assert.deepStrictEqual([signature![0], other![0]], ["v1", "v1"])
      assert.isTrue(
        yield* Effect.promise(() =>
          crypto.subtle.verify(
            "HMAC",
            key,
            Buffer.from(signature![1]!, "base64"),
            Buffer.from(`${webhook.id}.100.${webhook.body}`)
          )
        )
      )
    }))

  it.effect("logs the webhook and the status of a failure, and neither the URL nor the body", () =>
    Effect.gen(function*() {
      const { log } = yield* deliverAgainst([[503]])
      assert.lengthOf(log, 1)
      assert.include(log[0]!, webhook.id)
      assert.include(log[0]!, "503")
      assert.notMatch(log[0]!, /secret-path|"revision/)
    }))

  it.effect("is not repeated once the position is lost", () =>
    Effect.gen(function*() {
      const lost = { whileHeld: () => Effect.fail(new PositionLost()) } as Pick<
        HeldPosition,
        "whileHeld"
      > as HeldPosition
      const { deliver } = yield* Delivery
      assert.strictEqual((yield* Effect.flip(deliver(webhook, lost)))._tag, "PositionLost")
    }).pipe(Effect.provide(Delivery.layer.pipe(
      Layer.provide(Layer.succeed(HttpClient.HttpClient, HttpClient.make(() => Effect.die("no request")))),
      Layer.provide(ConfigProvider.layer(
        ConfigProvider.fromUnknown({ WEBHOOK_URL: "http://receiver.example/", WEBHOOK_SECRET: secret })
      ))
    ))))
})
