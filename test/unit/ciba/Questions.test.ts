/**
 * A question of CIBA over time: when the provider is polled, how long, and when it is asked again. Time passes a hundred times as fast, and
 * the approval is in memory.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, DateTime, Duration, Effect, Fiber } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { vi } from "vitest"
import { CibaApprovals, type CibaOptions } from "../../../src/ciba/CibaApprovals.ts"
import type { Approval } from "../../../src/domain/Approval.ts"
import { ClientId, ResourceOwner } from "../../../src/domain/Grant.ts"
import { OperationId } from "../../../src/domain/Operation.ts"
import { Approvals } from "../../../src/services/Approvals.ts"
import { StoreUnavailable } from "../../../src/services/StoreUnavailable.ts"
import { type CibaProvider, makeCibaProvider, settingsFor } from "../../fixtures/authorization/CibaProvider.ts"

/**
 * The clock of the test, on which each sleep takes a hundredth of its time, except those of `unhurried`. `sleeps` has those that began.
 * Both are in milliseconds.
 */
const makeHurriedClock = Effect.map(Clock.Clock, (inner) => {
  const sleeps: Array<number> = []
  const unhurried = new Set<number>()
  const clock: Clock.Clock = Object.assign(Object.create(inner), {
    sleep: (duration: Duration.Duration) =>
      Effect.suspend(() => {
        const millis = Duration.toMillis(duration)
        sleeps.push(millis)
        return inner.sleep(Duration.millis(unhurried.has(millis) ? millis : millis / 100))
      })
  })
  return { clock, sleeps, unhurried }
})

const owner = ResourceOwner.make("alice")

const waiting = (): Approval => ({
  operation_id: OperationId.make("019aa4f0-5c00-7b1e-8d2f-000000000000"),
  type: "payment" as Approval["type"],
  client_id: ClientId.make("agent"),
  resource_owner: owner,
  request_digest: "0".repeat(64),
  terms: { amount: "70.00", currency: "EUR", payee: "DE02120300000000202051" } as Approval["terms"],
  state: "pending",
  created_at: DateTime.makeUnsafe(Date.now()),
  expires_at: DateTime.makeUnsafe(Date.now() + 86_400_000),
  decided_at: null,
  decided_as: null,
  decider: null,
  reason: null
})

/** An approval in memory. `failing`: its reads that the ledger does not answer, the next ones first. */
const makeApprovals = () => {
  const all = new Map([waiting()].map((one) => [one.operation_id, one]))
  const failing: Array<boolean> = []
  const service = Approvals.of({
    owners: () => Effect.succeed([owner]),
    pending: () => Effect.sync(() => [...all.values()].filter(({ state }) => state === "pending")),
    find: (id) =>
      Effect.suspend(() =>
        failing.shift() === true
          ? Effect.fail(new StoreUnavailable({ cause: new Error("no connection") }))
          : Effect.succeed(all.get(id) ?? null)
      ),
    decide: ({ decision, operation_id }) =>
      Effect.sync(() => {
        const decided: Approval = { ...all.get(operation_id)!, state: decision }
        all.set(operation_id, decided)
        return decided
      }),
    recordRefused: () => Effect.void
  })
  return { service, failing, ids: [...all.keys()], stateOf: (id: OperationId) => all.get(id)!.state }
}

interface Scene extends ReturnType<typeof makeApprovals> {
  readonly provider: CibaProvider
  readonly ciba: CibaApprovals["Service"]
  /** All sleeps so far, in milliseconds. */
  readonly sleeps: ReadonlyArray<number>
  /** Sleeps that take their whole time, in milliseconds. */
  readonly unhurried: Set<number>
}

const test = (
  name: string,
  options: Partial<CibaOptions>,
  use: (scene: Scene) => Effect.Effect<void, unknown>
) =>
  it.live(name, () =>
    Effect.scoped(Effect.gen(function*() {
      const provider = yield* makeCibaProvider
      provider.behaviour.expiry = 36_000
      const approvals = makeApprovals()
      const { clock, sleeps, unhurried } = yield* makeHurriedClock
      yield* CibaApprovals.use((ciba) => {
        provider.notify.send = (request) =>
          Effect.runPromise(Effect.map(
            Effect.provideService(
              ciba.notification,
              HttpServerRequest.HttpServerRequest,
              HttpServerRequest.fromWeb(request)
            ),
            (response) => HttpServerResponse.toWeb(response)
          ))
        return use({ ...approvals, provider, ciba, sleeps, unhurried })
      }).pipe(
        Effect.provide(CibaApprovals.layer(settingsFor(provider, options))),
        Effect.provideService(Approvals, approvals.service),
        Effect.provide([Digest.layerWebCrypto, SecureRandom.layerWebCrypto]),
        Effect.provideService(Clock.Clock, clock)
      )
    })))

const slowDown = { status: 400, body: { error: "slow_down" } }
const outage = { status: 503, body: {} }

/** The pauses between polls, in seconds. The time of the whole question is ten hours. */
const pausesOf = (sleeps: ReadonlyArray<number>) =>
  sleeps.filter((millis) => millis < 3_600_000).map((millis) => millis / 1000)

/** Milliseconds of real time. */
const realTime = (millis: number) => Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, millis)))

/** Loses the notification. */
const lose = () => Promise.resolve(new Response(null, { status: 204 }))

describe("A question of CIBA", () => {
  for (const [answer, name] of [[slowDown, "slow_down"], [outage, "an outage"]] as const) {
    test(
      `is polled again after ${name}, without a further notification`,
      { mode: "ping" },
      ({ ciba, ids, provider, unhurried }) =>
        Effect.gen(function*() {
          // No reminder comes in time.
          unhurried.add(60_000)
          provider.behaviour.polls = [answer]
          assert.strictEqual((yield* ciba.ask(ids[0]!)).state, "approved")
          assert.lengthOf(provider.polls, 2)
        })
    )
  }

  test(
    "is polled at least once a minute while the provider does not answer",
    {},
    ({ ciba, ids, provider, sleeps }) =>
      Effect.gen(function*() {
        provider.behaviour.response = { interval: 5 }
        provider.behaviour.polls = Array.from({ length: 7 }, () => outage)
        yield* ciba.ask(ids[0]!)
        assert.deepStrictEqual(pausesOf(sleeps), [5, 10, 20, 40, 60, 60, 60, 60])
      })
  )

  test(
    "is polled every five seconds if the provider names no interval",
    {},
    ({ ciba, ids, provider, sleeps }) =>
      Effect.gen(function*() {
        provider.behaviour.response = { interval: undefined }
        provider.behaviour.polls = [{ status: 400, body: { error: "authorization_pending" } }]
        yield* ciba.ask(ids[0]!)
        assert.deepStrictEqual(pausesOf(sleeps), [5, 5])
      })
  )

  test(
    "is not ended by a ledger that cannot be read",
    {},
    ({ ciba, failing, ids, provider }) =>
      Effect.gen(function*() {
        provider.behaviour.polls = [{ status: 400, body: { error: "authorization_pending" } }]
        failing.push(false, true)
        assert.strictEqual((yield* ciba.ask(ids[0]!)).state, "approved")
      })
  )

  test(
    "ends when the provider says that it expires",
    { mode: "ping" },
    ({ ciba, ids, provider }) =>
      Effect.gen(function*() {
        provider.behaviour.answer = "nothing"
        provider.behaviour.expiry = 60
        const asked = yield* Effect.forkChild(Effect.flip(ciba.ask(ids[0]!)))
        const reason = Effect.map(Fiber.join(asked), (error) => "reason" in error ? error.reason : error._tag)
        assert.strictEqual(yield* Effect.raceFirst(reason, Effect.as(realTime(10_000), "later")), "expired")
      })
  )

  test(
    "is not polled after a notification of another question",
    { mode: "ping" },
    ({ ciba, ids, provider, sleeps }) =>
      Effect.gen(function*() {
        const forward = provider.notify.send
        // It overtakes the response to the question, so the gateway does not know the right name yet.
        provider.notify.send = ({ headers, url }) =>
          forward(new Request(url, { method: "POST", headers, body: "{\"auth_req_id\":\"another\"}" }))
        yield* ciba.ask(ids[0]!)
        assert.lengthOf(provider.polls, 1)
        assert.isAtLeast(pausesOf(sleeps).filter((pause) => pause === 5).length, 2, "waits on after the first")
      })
  )

  test(
    "is polled once a minute without a notification, which may be lost",
    { mode: "ping" },
    ({ ciba, ids, provider, sleeps }) =>
      Effect.gen(function*() {
        provider.notify.send = lose
        provider.behaviour.polls = [{ status: 400, body: { error: "authorization_pending" } }]
        assert.strictEqual((yield* ciba.ask(ids[0]!)).state, "approved")
        assert.lengthOf(provider.polls, 2)
        assert.isAtLeast(pausesOf(sleeps).filter((pause) => pause === 60).length, 2)
      })
  )

  test(
    "is polled once more before it ends, if no notification came",
    { mode: "ping" },
    ({ ciba, ids, provider, sleeps, unhurried }) =>
      Effect.gen(function*() {
        provider.notify.send = lose
        provider.behaviour.expiry = 30
        // The poll may take its time.
        unhurried.add(30_000).add(60_000)
        assert.strictEqual((yield* ciba.ask(ids[0]!)).state, "approved")
        assert.lengthOf(provider.polls, 1)
        assert.include(pausesOf(sleeps), 25)
      })
  )

  test("gives the provider 30 seconds for each poll, which it may hold", {}, ({ ciba, ids }) =>
    Effect.gen(function*() {
      const limits = vi.spyOn(AbortSignal, "timeout")
      yield* ciba.ask(ids[0]!)
      assert.include(limits.mock.calls.map(([millis]) => millis), 30_000)
      limits.mockRestore()
    }))

  test(
    "is asked again if the provider could not be asked",
    {},
    ({ ciba, ids, provider, stateOf }) =>
      Effect.gen(function*() {
        provider.behaviour.asks = [outage, outage]
        const loop = yield* Effect.forkChild(ciba.askPending)
        for (let waited = 0; waited < 10_000 && stateOf(ids[0]!) === "pending"; waited += 50) yield* realTime(50)
        yield* Fiber.interrupt(loop)
        assert.strictEqual(stateOf(ids[0]!), "approved")
      })
  )
})
