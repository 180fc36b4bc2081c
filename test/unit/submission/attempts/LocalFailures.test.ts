/**
 * A local failure, such as a wrong key, ends no operation: claims are returned, the provider is paused, and the work goes on
 * when the failure has passed. The tests run a worker over the ledger in memory, on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import { SubmissionWorker } from "../../../../src/submission/attempts/SubmissionWorker.ts"
import { NotSent, type SubmissionAnswer, Uncertain } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { defaultPolicy, validatePolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import {
  acknowledged,
  away,
  bank,
  makeWorld,
  neverOpen,
  until,
  workFor,
  type World
} from "../../../fixtures/submission/World.ts"

const wrongKey = Effect.fail(new NotSent({ reason: "401: the key is wrong", isLocal: true, isRefused: true }))

const accepts: Effect.Effect<SubmissionAnswer> = Effect.succeed(acknowledged)

const paused = ({ message }: World["logs"][number]) => String(message).startsWith("Paused a provider")

/** A bank that answers with the first of two results until `repair`, and with the second one from then on. */
const repairable = (policy: Partial<World["policy"]> = {}) =>
  Effect.gen(function*() {
    let isRepaired = false
    const sent: Array<OperationId> = []
    const world = yield* makeWorld({
      policy,
      submit: (_, { id }) =>
        Effect.suspend(() => {
          if (!isRepaired) return wrongKey
          sent.push(id)
          return accepts
        })
    })
    const repair = Effect.sync(() => {
      isRepaired = true
    })
    return { world, sent, repair }
  })

/** Starts a worker. Its first poll ends before the clock of the test moves. */
const startWorker = (world: World) =>
  Effect.tap(world.start(SubmissionWorker.layer), Effect.repeat(Effect.yieldNow, { times: 1000 }))

const statesOf = (world: World, ids: ReadonlyArray<OperationId>) =>
  Effect.map(Effect.forEach(ids, world.stateOf), (states) => new Set(states))

describe("A wrong key", () => {
  it.effect("for ten minutes ends none of 200 operations; with the right key each is sent once and settles", () =>
    Effect.gen(function*() {
      const { repair, sent, world } = yield* repairable()
      const ids = yield* world.acceptMany(200)
      yield* startWorker(world)
      yield* TestClock.adjust("1 second")
      const [warning] = world.logs.filter(paused)
      assert.strictEqual(warning?.level, "WARN")
      assert.deepStrictEqual(warning?.annotations, { provider: bank, reason: "401: the key is wrong" })
      yield* TestClock.adjust("599 seconds")
      assert.doesNotHaveAnyKeys(Object.fromEntries([...yield* statesOf(world, ids)].map((state) => [state, 1])), [
        "failed",
        "indeterminate"
      ])
      assert.lengthOf(world.logs.filter(paused), 1)
      assert.isEmpty(sent)
      // The first batch, and a probe after each pause.
      assert.isAtMost(world.attempts.length, world.policy.providerConcurrency + 63)
      yield* repair
      // Thirteen seconds in small steps: ciphers run outside the clock of the test, and each step leaves them time.
      yield* Effect.repeat(TestClock.adjust("100 millis"), { times: 129 })
      assert.isAbove(sent.length, 60, "the next probe resumes all claims")
      assert.lengthOf(world.logs.filter(({ message }) => String(message).startsWith("Resumed a provider")), 1)
      yield* TestClock.adjust("10 minutes")
      assert.sameMembers(sent, ids)
      assert.deepStrictEqual(yield* statesOf(world, ids), new Set(["submitted"]))
      for (const id of ids) assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting", "submitted"])
    }))

  it.effect("is probed by one operation at a time: after 1, 2, 4 and 8 seconds, and then every 10", () =>
    Effect.gen(function*() {
      const { world } = yield* repairable({ providerConcurrency: 4, pollInterval: Duration.millis(10) })
      yield* world.acceptMany(100)
      yield* startWorker(world)
      yield* TestClock.adjust("100 seconds")
      const times = world.attempts.map(({ at }) => at)
      assert.deepStrictEqual(times.slice(0, 4), [0, 0, 0, 0], "the first batch was claimed before the failure")
      const pauses = times.slice(4).map((at, n) => (at - times[n + 3]!) / 1000)
      const expected = [1, 2, 4, 8, 10, 10, 10, 10, 10, 10, 10, 10]
      for (const [n, pause] of pauses.entries()) assert.approximately(pause, expected[n] ?? 0, 0.05, `pause ${n + 1}`)
      assert.isAtLeast(pauses.length, 11)
    }))

  it.effect("is probed by no second operation while a probe takes long", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        policy: { providerConcurrency: 4, pollInterval: Duration.millis(10) },
        submit: () => Effect.delay(wrongKey, "3 seconds")
      })
      yield* world.acceptMany(100)
      yield* startWorker(world)
      yield* TestClock.adjust("15 seconds")
      // The first batch until 3 s, and probes after pauses of 1, 2 and 4 seconds.
      const seconds = world.attempts.map(({ at }, _, attempts) => Math.round((at - attempts[0]!.at) / 1000))
      assert.deepStrictEqual(seconds, [0, 0, 0, 0, 4, 9])
    }))

  it.effect("is logged at WARN once, and its reason is kept beside each returned claim", () =>
    Effect.gen(function*() {
      const { world } = yield* repairable()
      const id = yield* world.acceptOne
      yield* world.work
      assert.deepStrictEqual(world.logs.map(({ annotations, level }) => [level, annotations]), [
        ["WARN", { provider: bank, reason: "401: the key is wrong" }]
      ])
      assert.strictEqual(world.recordOf(id).return_reason, "401: the key is wrong")
      assert.deepStrictEqual(yield* world.historyOf(id), ["accepted", "submitting"])
    }))
})

describe("One operation that the adapter cannot encode", () => {
  it.effect("does not stop the others, which are uncertain, and waits for the next version", () =>
    Effect.gen(function*() {
      let poison: OperationId | undefined
      const world = yield* makeWorld({
        circuit: neverOpen,
        submit: (_, { id }) =>
          Effect.fail(
            id === poison
              ? new NotSent({ reason: "it cannot be encoded", isLocal: true })
              : new Uncertain({ reason: "reset" })
          )
      })
      poison = yield* world.acceptOne
      yield* startWorker(world)
      for (let second = 0; second < 60; second++) {
        const ids = yield* world.acceptMany(5)
        yield* TestClock.adjust("3 seconds")
        for (const id of ids) assert.notInclude(["accepted", "submitting"], yield* world.stateOf(id))
      }
      assert.strictEqual(yield* world.stateOf(poison), "submitting")
      const tries = world.attempts.filter(({ id }) => id === poison).length
      assert.isAtLeast(tries, 5)
      assert.isAtMost(tries, 40, "its delay grows with its age")
    }))

  it.effect("is named by the pause that its payload causes, which ends after the operation is cancelled", () =>
    Effect.gen(function*() {
      const reason = "the payload does not fit the schema of payment: amount: Expected a decimal"
      const world = yield* makeWorld({
        policy: { pollInterval: Duration.millis(100) },
        submit: () => Effect.fail(new NotSent({ reason, isLocal: true }))
      })
      const resumed = () => world.logs.filter(({ message }) => String(message).startsWith("Resumed a provider"))
      const id = yield* world.acceptOne
      yield* startWorker(world)
      yield* TestClock.adjust("20 minutes")
      assert.deepStrictEqual(world.logs.find(paused)?.annotations, {
        provider: bank,
        reason: `${reason} (operation ${id})`
      })
      assert.isEmpty(resumed(), "the operation still waits")
      yield* world.ledger.cancel(id, { operator: "olivia" })
      yield* TestClock.adjust("6 minutes")
      assert.deepStrictEqual(resumed().map(({ message }) => message), [
        "Resumed a provider: the operation that caused its pause waits no more"
      ])
    }))

  it.effect("does not pause the provider if the credentials of its owner are wrong, until the fifth owner in a row", () =>
    Effect.gen(function*() {
      const wrong = new Set<OperationId>()
      const expired = new NotSent({ reason: "status 401", isLocal: true, isRefused: true, isOfOperation: true })
      const world = yield* makeWorld({
        policy: { pollInterval: Duration.millis(100) },
        submit: (_, { id }) => wrong.has(id) ? Effect.fail(expired) : accepts
      })
      const workWith = (count: number, isWrong: boolean, owner = world.grant) =>
        Effect.gen(function*() {
          const ids = yield* world.acceptMany(count, owner)
          if (isWrong) { for (const id of ids) wrong.add(id) }
          yield* world.work
          return ids
        })
      for (let n = 0; n < 5; n++) {
        const ids = yield* workWith(4, true)
        assert.deepStrictEqual(yield* statesOf(world, ids), new Set(["submitting"]))
        assert.strictEqual(world.recordOf(ids[0]!).return_reason, "status 401")
        assert.deepStrictEqual(yield* statesOf(world, yield* workWith(1, false)), new Set(["submitted"]))
      }
      assert.isEmpty(world.logs.filter(paused))
      yield* workWith(8, true)
      const failed: Array<OperationId> = []
      for (let n = 0; n < 4; n++) {
        assert.isEmpty(world.logs.filter(paused), `${n + 1} owners`)
        failed.push(...yield* workWith(1, true, (yield* world.issue({ provider: bank })).grant))
      }
      const [warning, ...others] = world.logs.filter(paused)
      assert.isEmpty(others, "they may be the credentials of all")
      const [, named = ""] = /^status 401 \(operations (.+)\)$/u.exec(String(warning!.annotations["reason"])) ?? []
      assert.lengthOf(named.split(", "), 5, "one operation of each owner")
      assert.includeMembers(named.split(", "), failed)
      const ids = [...wrong]
      wrong.clear()
      yield* startWorker(world)
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(yield* statesOf(world, ids), new Set(["submitted"]))
    }))

  it.effect("does not end a pause if it can never be sent, because that says nothing about the others", () =>
    Effect.gen(function*() {
      let never: OperationId | undefined
      const world = yield* makeWorld({
        policy: { providerConcurrency: 1, pollInterval: Duration.millis(100) },
        submit: (_, { id }) =>
          id === never ? Effect.fail(new NotSent({ reason: "no such currency", isPermanent: true })) : wrongKey
      })
      yield* world.acceptOne
      never = yield* world.acceptOne
      yield* startWorker(world)
      yield* TestClock.adjust("4 seconds")
      assert.deepInclude(yield* world.show(never), {
        state: "failed",
        failure: {
          code: "request_unsendable",
          message: "The request cannot be sent to its provider, and was not sent."
        }
      })
      assert.isEmpty(world.logs.filter(({ message }) => String(message).startsWith("Resumed a provider")))
    }))
})

describe("The search for returned claims", () => {
  it.effect("costs a busy worker one statement a second while there are none", () =>
    Effect.gen(function*() {
      let searches = 0
      let claims = 0
      const world = yield* makeWorld({
        policy: { pollInterval: Duration.millis(10) },
        queue: (queue) => ({
          claim: (...args) => Effect.suspend(() => (claims++, queue.claim(...args))),
          claimReturned: (...args) => Effect.suspend(() => (searches++, queue.claimReturned(...args)))
        })
      })
      yield* startWorker(world)
      yield* TestClock.adjust("10 seconds")
      assert.isAtLeast(searches, 9)
      assert.isAtMost(searches, 11)
      assert.isAbove(claims, 500)
    }))

  it.effect("comes before other claims, so that the oldest operations are sent first", () =>
    Effect.gen(function*() {
      const { repair, sent, world } = yield* repairable({ providerConcurrency: 2 })
      const [oldest] = yield* world.acceptMany(1)
      yield* world.work
      yield* world.acceptMany(5)
      yield* repair
      yield* TestClock.adjust("10 seconds")
      yield* world.inside(world.worker.runOnce(bank, 2))
      assert.deepStrictEqual(sent, [oldest], "one operation, as the probe")
    }))

  it.effect("does not lose its claims when the next statement hangs: they are returned", () =>
    Effect.gen(function*() {
      let isHanging = false
      let tries = 0
      let id: OperationId | undefined
      const world = yield* makeWorld({
        submit: (_, operation) => operation.id === id && ++tries === 1 ? wrongKey : accepts,
        queue: (queue) => ({ claim: (...args) => isHanging ? Effect.never : queue.claim(...args) })
      })
      id = yield* world.acceptOne
      yield* world.work
      // Another operation ends the pause.
      const other = yield* world.acceptOne
      yield* TestClock.adjust("2 seconds")
      yield* world.work
      assert.lengthOf(world.attempts.filter((attempt) => attempt.id === other), 1)
      isHanging = true
      yield* TestClock.adjust("5 seconds")
      yield* workFor(world, "31 seconds")
      assert.strictEqual(yield* world.stateOf(id), "submitting")
      assert.strictEqual(world.recordOf(id).return_reason, "it was too late to send")
    }))
})

describe("A provider that refuses", () => {
  it.effect("until the send deadline fails the operation with `provider_unavailable`, and does not pause its worker", () =>
    Effect.gen(function*() {
      const world = yield* makeWorld({
        circuit: neverOpen,
        submit: () => Effect.fail(new NotSent({ reason: "429", isRefused: true }))
      })
      const id = yield* world.acceptOne
      yield* workFor(world, world.policy.sendWithin)
      assert.isAbove(world.attempts.length, 5)
      assert.strictEqual((yield* world.show(id)).failure?.code, "provider_unavailable")
      const failed = world.logs.filter(({ message }) => message === "Operation failed")
      assert.deepStrictEqual(
        failed.map(({ annotations, level }) => [level, annotations["code"], annotations["operation_id"]]),
        [
          ["WARN", "provider_unavailable", id]
        ]
      )
      assert.isEmpty(world.logs.filter(paused))
    }))
})

describe("A worker with an id", () => {
  it.effect("settles the claims of its last run at its start, with a warning", () =>
    Effect.gen(function*() {
      const policy = { workerId: "worker-1" }
      const world = yield* makeWorld({
        policy,
        // The answer to the first claim is lost: the process might as well have died.
        queue: (queue) => ({ claim: (...args) => Effect.andThen(queue.claim(...args), away) })
      })
      const ids = yield* world.acceptMany(2)
      yield* world.work
      assert.deepStrictEqual(yield* statesOf(world, ids), new Set(["submitting"]))
      yield* startWorker(world)
      assert.deepStrictEqual(yield* statesOf(world, ids), new Set(["indeterminate"]))
      const [line] = world.logs.filter(({ message }) => String(message).startsWith("Rescued the claims"))
      assert.strictEqual(line?.level, "WARN")
      assert.deepStrictEqual(line?.annotations, { worker: "worker-1", operations: 2 })
    }))

  it("has one of 1 to 255 printable characters", () => {
    for (
      const [workerId, isValid] of [[null, true], ["pod-7", true], ["", false], ["a\n", false], [
        "x".repeat(256),
        false
      ]] as const
    ) {
      assert.strictEqual(validatePolicy({ ...defaultPolicy, workerId }, 1) === null, isValid)
    }
  })

  it("may send for five minutes after a claim, which a rollback of the database may lose, and not longer", () => {
    const reasonFor = (seconds: number) =>
      validatePolicy({
        ...defaultPolicy,
        sendWithin: Duration.seconds(seconds),
        rescueAfter: Duration.minutes(30)
      }, 1)
    assert.isNull(reasonFor(300))
    assert.strictEqual(reasonFor(301), "sendWithin must be at most 5m")
  })
})

describe("A client whose payments cannot be encoded", () => {
  it.effect("does not stop the payments of another client, with 200 of them returned", () =>
    Effect.gen(function*() {
      const poison = new Set<OperationId>()
      const world = yield* makeWorld({
        submit: (_, { id }) =>
          poison.has(id)
            ? Effect.fail(new NotSent({ reason: "it cannot be encoded", isLocal: true }))
            : Effect.succeed(acknowledged)
      })
      const { grant } = yield* world.issue({ provider: bank })
      for (const id of yield* world.acceptMany(200)) poison.add(id)
      yield* world.start(SubmissionWorker.layer)
      yield* until(() => world.attempts.length > 0)
      yield* TestClock.adjust("1 hour")
      const sent: Array<number> = []
      for (let n = 0; n < 20; n++) {
        const [id] = yield* world.acceptMany(1, grant)
        yield* TestClock.adjust("30 seconds")
        sent.push(world.attempts.filter((attempt) => attempt.id === id).length)
      }
      assert.deepStrictEqual(sent, sent.map(() => 1), "each within 30 seconds")
    }))
})

describe("A client whose payments fail by its own text, such as an unknown consent", () => {
  it.effect("does not slow the payments of another client, with 300 of them, and tries each ever less often", () =>
    Effect.gen(function*() {
      const poison = new Set<OperationId>()
      const world = yield* makeWorld({
        submit: (_, { id }) =>
          poison.has(id)
            ? Effect.fail(new NotSent({ reason: "no credentials", isLocal: true, isOfOperation: true }))
            : Effect.delay(Effect.succeed(acknowledged), "200 millis")
      })
      const { grant } = yield* world.issue({ provider: bank })
      for (const id of yield* world.acceptMany(300)) poison.add(id)
      yield* startWorker(world)
      yield* TestClock.adjust("1 second")
      const ids = new Set(yield* world.acceptMany(300, grant))
      yield* Effect.repeat(TestClock.adjust("100 millis"), { times: 100 })
      assert.strictEqual(world.attempts.filter(({ id }) => ids.has(id)).length, 300, "30 a second")
      yield* TestClock.adjust("1 hour")
      assert.isEmpty(world.logs.filter(paused))
      const tries = new Map<OperationId, number>()
      for (const { id } of world.attempts) tries.set(id, (tries.get(id) ?? 0) + 1)
      for (const id of poison) assert.isAtMost(tries.get(id)!, 70)
    }))
})
