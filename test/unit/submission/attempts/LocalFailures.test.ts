/**
 * A local failure, such as a wrong key, ends no operation: claims are returned, the provider is paused, and the work goes on
 * when the failure has passed. The tests run a worker over the ledger in memory, on the test's clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { claimOperations } from "../../../../src/submission/attempts/claimOperations.ts"
import { ProviderPauses } from "../../../../src/submission/providers/ProviderPauses.ts"
import { defaultPolicy, validatePolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import type { WorkerServices } from "../../../../src/submission/SubmissionServices.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { bank } from "../../../fixtures/submission/World.ts"

const { millis, seconds } = Duration
const paused = "Paused a provider"
const resumed = "Resumed a provider"
const noKey = w.logged(paused, [["WARN", { provider: bank, reason: "401: the key is wrong" }]])
const expired = w.notSent("status 401", { isLocal: true, isRefused: true, isOfOperation: true })
const unencodable = w.notSent("it cannot be encoded", { isLocal: true })
/** The first poll ends before the clock of the test moves. */
const start = [w.start(), w.settle]
const pollsOften = w.policy({ pollInterval: millis(100) })

w.tell("A wrong key", {
  "for ten minutes ends none of 200 operations; with the right key each is sent once and settles": [
    [w.answers(w.wrongKey), w.accept(200), ...start, w.pass("1 second"), noKey, w.pass("599 seconds"), noKey],
    w.check(({ world }) => {
      const states = [...world.memory.operations.values()].map(({ operation }) => operation.state)
      assert.sameMembers([...new Set(states)], ["accepted", "submitting"])
      // The first batch, and a probe after each pause.
      assert.isAtMost(world.attempts.length, world.policy.providerConcurrency + 63)
    }),
    // Thirteen seconds in small steps: ciphers run outside the clock of the test, and each step leaves them time.
    [w.mark, w.answers(w.accepts), w.pass("100 millis", 130)],
    w.check(({ marked, world }) =>
      assert.isAbove(world.attempts.length - marked.sent, 60, "the next probe resumes all claims")
    ),
    [w.logged(resumed, 1), w.pass("10 minutes"), w.sentSince(200), w.went("submitting submitted")]
  ],
  "is probed by one operation at a time: after 1, 2, 4 and 8 seconds, and then every 10": [
    w.policy({ providerConcurrency: 4, pollInterval: millis(10) }),
    [w.answers(w.wrongKey), w.accept(100), ...start, w.pass("100 seconds")],
    w.check(({ world }) => {
      const times = world.attempts.map(({ at }) => at)
      assert.deepStrictEqual(times.slice(0, 4), [0, 0, 0, 0], "the first batch was claimed before the failure")
      const pauses = times.slice(4).map((at, n) => (at - times[n + 3]!) / 1000)
      for (const [n, pause] of pauses.entries()) assert.approximately(pause, [1, 2, 4, 8][n] ?? 10, 0.05)
      assert.oneOf(pauses.length, [11, 12])
    })
  ],
  "is probed by no second operation while a probe takes long": [
    w.policy({ providerConcurrency: 4, pollInterval: millis(10) }),
    [w.answers(w.slowly("3 seconds", w.wrongKey)), w.accept(100), ...start, w.pass("15 seconds")],
    // The first batch until 3 s, and probes after pauses of 1, 2 and 4 seconds.
    w.check(({ world: { attempts } }) => {
      const from = attempts.map(({ at }) => Math.round((at - attempts[0]!.at) / 1000))
      assert.deepStrictEqual(from, [0, 0, 0, 0, 4, 9])
    })
  ],
  "is logged at WARN once, and its reason is kept beside each returned claim": [
    [w.answers(w.wrongKey), w.accept(), w.work(), noKey, w.logged("", 1), w.returned("401: the key is wrong")]
  ]
})

w.tell("One operation that the adapter cannot encode", {
  "does not stop the others, which are uncertain, and waits for the next version": [
    [w.noCircuit, w.answersBy((n) => n === 0 ? unencodable : w.reset), w.accept(), ...start],
    ...Array.from({ length: 60 }, (_, n) => [
      [w.accept(5), w.pass("3 seconds")],
      w.counts({ submitting: 1, indeterminate: 5 * (n + 1) })
    ]).flat(),
    w.check(({ ids, world }) => {
      const tries = world.attempts.filter(({ id }) => id === ids[0]).length
      assert.isAtLeast(tries, 5)
      assert.isAtMost(tries, 40, "its delay grows with its age")
    })
  ],
  "does not pause the provider if the credentials of its owner are wrong, until the fifth owner in a row": [
    Array.from(
      { length: 5 },
      () => [w.answers(expired), w.accept(4), w.work(), w.answers(w.accepts), w.accept(), w.work()]
    ),
    [pollsOften, w.counts({ submitting: 20, submitted: 5 }), w.returned("status 401"), w.logged(paused, 0)],
    // An answer that is declared begins the count anew.
    [w.answers(expired), [1, 2, 3, 4].map(() => [w.otherOwner, w.accept(), w.work()]), w.logged(paused, 0)],
    [w.answers(w.accepts), w.accept(), w.work()],
    [w.answers(expired), w.accept(8), w.work()],
    [2, 3, 4, 5].map(() => [w.logged(paused, 0), w.otherOwner, w.accept(), w.work()]),
    // They may be the credentials of all.
    w.logged(paused, 1),
    w.check(({ ids, world }) => {
      const { annotations } = world.logs.find(({ message }) => String(message).startsWith(paused))!
      const [, named = ""] = /^status 401 \(operations (.+)\)$/u.exec(String(annotations["reason"])) ?? []
      assert.lengthOf(named.split(", "), 5, "one operation of each owner")
      assert.includeMembers(named.split(", "), ids.slice(-4))
    }),
    [w.answers(w.accepts), start, w.pass("10 minutes"), w.is("submitted")]
  ],
  "does not end a pause if it can never be sent, because that says nothing about the others": [
    w.policy({ providerConcurrency: 1, pollInterval: millis(100) }),
    w.answersBy((n) => n === 1 ? w.notSent("no such currency", { isPermanent: true }) : w.wrongKey),
    [w.accept(2), ...start, w.pass("4 seconds"), w.logged(resumed, 0)],
    w.failed("request_unsendable", "The request cannot be sent to its provider, and was not sent.", 1)
  ]
})

w.tell("The search for returned claims", {
  "costs a busy worker one statement a second while there are none": [
    [w.policy({ pollInterval: millis(10) }), ...start, w.pass("10 seconds")],
    w.check(({ calls }) => {
      assert.closeTo(calls["claimReturned"]!, 10, 1)
      assert.isAbove(calls["claim"]!, 500)
    })
  ],
  "comes before other claims, so that the oldest operations are sent first": [
    [w.policy({ providerConcurrency: 2 }), w.answers(w.wrongKey), w.accept(), w.work(), w.accept(5), w.mark],
    [w.answers(w.accepts), w.pass("10 seconds"), w.act(({ world }) => world.inside(world.worker.runOnce(bank, 2)))],
    // One operation, as the probe.
    [w.sentSince(1), w.is("submitted", 0)]
  ],
  "does not lose its claims when the next statement hangs: they are returned": [
    w.answersBy((n, attempt) => n === 0 && attempt === 1 ? w.wrongKey : w.accepts),
    // Another operation ends the pause.
    [w.accept(), w.work(), w.accept(), w.pass("2 seconds"), w.work(), w.is("submitted", 1)],
    [w.hangs("claim"), w.pass("5 seconds"), w.workFor("31 seconds"), w.returned("it was too late to send")]
  ]
})

w.tell("A provider that refuses", {
  "until the send deadline fails the operation with `provider_unavailable`, and does not pause its worker": [
    [w.noCircuit, w.answers(w.notSent("429", { isRefused: true })), w.accept(), w.workFor("sendWithin")],
    [w.failed("provider_unavailable"), w.logged("Operation failed", 1), w.logged(paused, 0)],
    w.check(({ ids, world: { attempts, logs } }) => {
      assert.isAbove(attempts.length, 5)
      const { annotations, level } = logs.find(({ message }) => message === "Operation failed")!
      assert.strictEqual(level, "WARN")
      assert.deepInclude(annotations, { code: "provider_unavailable", operation_id: ids[0] })
    })
  ]
})

w.tell("A worker with an id", {
  "settles the claims of its last run at its start, with a warning": [
    // The answer to the first claim is lost: the process might as well have died.
    [w.policy({ workerId: "worker-1" }), w.lostAnswer("claim"), w.accept(2), w.work(), w.is("submitting")],
    [...start, w.is("indeterminate")],
    w.logged("Rescued the claims", [["WARN", { worker: "worker-1", operations: 2 }]])
  ]
})

describe("The policy of a worker", () => {
  it("has an id of 1 to 255 printable characters", () => {
    const ids = [[null, true], ["pod-7", true], ["", false], ["a\n", false], ["x".repeat(256), false]] as const
    for (const [workerId, isValid] of ids) {
      assert.strictEqual(validatePolicy({ ...defaultPolicy, workerId }, 1) === null, isValid)
    }
  })

  it("lets it send for five minutes after a claim, which a rollback of the database may lose, and not longer", () => {
    const reasonFor = (sendWithin: number) =>
      validatePolicy({ ...defaultPolicy, sendWithin: seconds(sendWithin), rescueAfter: Duration.minutes(30) }, 1)
    assert.isNull(reasonFor(300))
    assert.strictEqual(reasonFor(301), "sendWithin must be at most 5m")
  })
})

w.tell("A client whose payments cannot be encoded", {
  "does not stop the payments of another client, with 200 of them returned": [
    [w.answersBy((n) => n < 200 ? unencodable : w.accepts), w.accept(200), ...start, w.pass("1 hour"), w.otherOwner],
    // Each within 30 seconds.
    ...Array.from({ length: 20 }, (_, n) => [w.accept(), w.pass("30 seconds"), w.is("submitted", 200 + n)])
  ]
})

w.tell("A client whose payments fail by its own text, such as an unknown consent", {
  "does not slow the payments of another client, with 300 of them, and tries each ever less often": [
    w.answersBy((n) =>
      n < 300 ? w.notSent("no credentials", { isLocal: true, isOfOperation: true }) : w.slowly("200 millis")
    ),
    [w.accept(300), start, w.pass("1 second"), w.otherOwner, w.accept(300), w.pass("100 millis", 101)],
    // 30 a second.
    [w.counts({ submitting: 300, submitted: 300 }), w.pass("1 hour"), w.logged(paused, 0)],
    // One line for each reason of an owner.
    w.logged("Could not send an operation", 1),
    w.check(({ ids, world }) => {
      const tries = Map.groupBy(world.attempts, ({ id }) => id)
      for (const id of ids.slice(0, 300)) assert.isAtMost(tries.get(id)!.length, 70)
    })
  ]
})

it.effect("A pause is probed again after a claim that the recorder of the claims did not admit", () =>
  Effect.gen(function*() {
    const pauses = yield* ProviderPauses
    yield* pauses.fail(bank, null, "the key is wrong")
    yield* TestClock.adjust("1 second")
    const recorder = { admits: Effect.succeed(false) }
    const claim = claimOperations({ pauses, policy: defaultPolicy, recorder } as unknown as WorkerServices)
    assert.isEmpty(yield* claim(bank, 5))
    assert.strictEqual((yield* pauses.admit(bank, 5)).limit, 1)
  }).pipe(Effect.provide(ProviderPauses.layer)))
