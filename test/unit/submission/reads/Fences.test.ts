/**
 * When a fence begins, what it needs before each request, and what follows from its answer. The ledger is in memory, and the bank follows a
 * script.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, DateTime, Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import type { ProviderReference } from "../../../../src/domain/Submission.ts"
import {
  FenceAnswer,
  namesNothing,
  NextRequest,
  NotSent,
  type ProviderPromises,
  SendDeadline,
  StatusAnswer,
  Uncertain
} from "../../../../src/submission/providers/ProviderAdapter.ts"
import { fenceLease, fenceTimeout, fenceWithin } from "../../../../src/submission/reads/fences.ts"
import { defaultPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import { outcome } from "../../../fixtures/ledger/Ledger.ts"
import { evidenceOf } from "../../../fixtures/OperatorEvidence.ts"
import {
  evidence,
  makeWorld,
  neverReceived,
  notFound,
  pending,
  reference,
  type Script,
  succeeded,
  unclear,
  type World
} from "../../../fixtures/submission/World.ts"

const promises: ProviderPromises = { keys: "for_ever", readByOperationId: "yes" }
const waits = FenceAnswer.NotProven({ reason: "unclear", detail: "the order of the fence is not cancelled yet" })
const occupied = FenceAnswer.Occupied({
  names: { reference: "fence-1" as ProviderReference, operation_id: null },
  evidence: { status: "canceled" }
})

/** An operation whose request was lost, at a bank that does not find it. `fences` has the beginning that the ledger had when each was sent. */
const lostRequest = Effect.fnUntraced(
  function*(script: Script & { readonly answers?: ReadonlyArray<FenceAnswer> } = {}) {
    const fences: Array<number | null | undefined> = []
    const { answers = [waits] } = script
    // The bank of the world looks into its ledger.
    let world: World
    world = yield* makeWorld({
      submit: () => Effect.fail(new Uncertain({ reason: "the answer was lost" })),
      promises,
      read: () => Effect.succeed(neverReceived),
      fence: (fence, { id }) =>
        Effect.sync(() => {
          fences.push(world.recordOf(id).fence_started_at?.epochMilliseconds)
          return answers[Math.min(fence, answers.length) - 1]!
        }),
      ...script
    })
    const id = yield* world.acceptOne
    yield* world.work
    return { fences, id, world }
  }
)

/** Lets time pass until the next read is due, and runs it. */
const next = Effect.fnUntraced(function*(world: World, id: OperationId) {
  yield* TestClock.adjust(Duration.millis(Math.max(0, world.recordOf(id).due_at! - (yield* Clock.currentTimeMillis))))
  yield* world.reconcile
})

/** Reads until a fence has begun. */
const untilBegun = Effect.fnUntraced(function*(world: World, id: OperationId) {
  for (let n = 0; n < 20 && world.recordOf(id).fence_started_at === null; n++) yield* next(world, id)
})

describe("A fence", () => {
  it.effect("begins after \"not found\", once clocks agree that send_before has passed, and is recorded before it is sent", () =>
    Effect.gen(function*() {
      const { fences, id, world } = yield* lostRequest({ answers: [occupied] })
      const { send_before } = world.recordOf(id)
      yield* untilBegun(world, id)
      const begun = world.recordOf(id).fence_started_at!.epochMilliseconds
      assert.isAbove(begun, send_before!.epochMilliseconds + 5000)
      assert.isEmpty(fences, "nothing is sent by the read that begins it")
      assert.isFalse((yield* world.show(id)).under_review, "no person need ask")
      const reads = world.reads.length
      yield* next(world, id)
      assert.deepStrictEqual(fences, [begun])
      assert.lengthOf(world.reads, reads, "no read by the key follows")
      assert.deepInclude((yield* world.show(id)).failure, { code: "provider_never_received" })
      assert.deepInclude(yield* world.evidenceOf(id), { by: "fence", answer: { status: "canceled" } })
    }))

  it.effect("is repeated in place of the status read while its own order is not cancelled", () =>
    Effect.gen(function*() {
      const { fences, id, world } = yield* lostRequest({ answers: [waits, waits, occupied] })
      yield* untilBegun(world, id)
      const reads = world.reads.length
      for (let n = 0; n < 2; n++) {
        yield* next(world, id)
        assert.strictEqual(yield* world.stateOf(id), "indeterminate")
      }
      yield* next(world, id)
      assert.strictEqual(yield* world.stateOf(id), "failed")
      assert.strictEqual(new Set(fences).size, 1, "the beginning is recorded once")
      assert.lengthOf(world.reads, reads)
    }))

  it.effect("begins while an older read is under way, whose answer may be its order and is not recorded", () =>
    Effect.gen(function*() {
      let world: World
      const { fences, id, ...made } = yield* lostRequest({
        read: (_, operation) =>
          Effect.map(
            Effect.orDie(
              world.queue.mayFence({ operation, revision: world.recordOf(operation.id).operation.revision })
            ),
            (begun) => begun === null ? unclear : pending
          )
      })
      world = made.world
      yield* untilBegun(world, id)
      assert.deepInclude(world.recordOf(id), { reference: null, acknowledged: false })
      assert.strictEqual(yield* world.stateOf(id), "indeterminate")
      yield* next(world, id)
      assert.lengthOf(fences, 1, "its order is cancelled after all")
    }))

  it.effect("that stays without proof asks a person once it is old, and is repeated", () =>
    Effect.gen(function*() {
      const questions: Array<string | null | undefined> = []
      const { fences, id, world } = yield* lostRequest({
        queue: (queue) => ({
          postpone: (id, revision, next) => {
            questions.push(next.question)
            return queue.postpone(id, revision, next)
          }
        })
      })
      yield* untilBegun(world, id)
      yield* next(world, id)
      assert.isUndefined(questions.at(-1))
      yield* TestClock.adjust("15 minutes")
      yield* next(world, id)
      assert.include(questions.at(-1), id)
      const sent = fences.length
      yield* next(world, id)
      assert.lengthOf(fences, sent + 1)
    }))

  it.effect("that finds the first order is followed by a status read with its reference", () =>
    Effect.gen(function*() {
      const names = { reference, operation_id: null }
      let isKnown = false
      const { id, world } = yield* lostRequest({
        fence: () =>
          Effect.sync(() => {
            isKnown = true
            return FenceAnswer.Known(names)
          }),
        read: () =>
          Effect.sync(() => isKnown ? StatusAnswer.Proven({ state: "succeeded", names, evidence }) : neverReceived)
      })
      yield* untilBegun(world, id)
      yield* next(world, id)
      assert.deepInclude(world.recordOf(id), { reference, acknowledged: true })
      assert.strictEqual(yield* world.stateOf(id), "indeterminate")
      yield* next(world, id)
      assert.strictEqual(world.reads.at(-1)!.reference, reference)
      assert.strictEqual(yield* world.stateOf(id), "succeeded")
    }))

  const hour = Effect.fnUntraced(function*(world: World, id: OperationId) {
    yield* TestClock.adjust("1 hour")
    for (let n = 0; n < 3; n++) yield* next(world, id)
  })

  it.effect("is neither sent nor followed by a read while the settings name another account, and a person is asked", () =>
    Effect.gen(function*() {
      let account = "first"
      const { fences, id, world } = yield* lostRequest({ account: () => account, answers: [occupied] })
      account = "second"
      yield* next(world, id)
      assert.isEmpty(world.reads)
      account = "first"
      yield* untilBegun(world, id)
      const reads = world.reads.length
      account = "second"
      for (let n = 0; n < 3; n++) yield* next(world, id)
      assert.isEmpty(fences)
      assert.lengthOf(world.reads, reads)
      assert.isTrue((yield* world.show(id)).under_review)
      account = "first"
      yield* next(world, id)
      assert.deepInclude((yield* world.show(id)).failure, { code: "provider_never_received" })
    }))

  it.effect.each([["bank.example", "bank.example 4711"], ["bank.example 4711", "bank.example"]])(
    "does not begin, and no \"not found\" is final, but reads go on, once %s has become %s",
    ([sent, now]) =>
      Effect.gen(function*() {
        let account = sent
        const script = {
          account: () => account,
          submit: () => Effect.fail(new Uncertain({ reason: "the answer was lost" })),
          read: (read: number) => Effect.succeed(read < 5 ? neverReceived : succeeded)
        }
        const fenced = yield* lostRequest({ ...script, answers: [occupied] })
        const final = yield* makeWorld(script)
        const worlds = [[fenced.world, fenced.id], [final, yield* final.acceptOne]] as const
        yield* final.work
        account = now
        for (const [world, id] of worlds) {
          for (let read = 1; read < 5; read++) {
            yield* TestClock.adjust("1 hour")
            yield* next(world, id)
            assert.strictEqual(yield* world.stateOf(id), "indeterminate")
          }
          yield* next(world, id)
          assert.strictEqual(yield* world.stateOf(id), "succeeded")
        }
        assert.isEmpty(fenced.fences)
      })
  )

  it.effect("is not read at an account whose number begins as that of its own", () =>
    Effect.gen(function*() {
      let account = "bank.example 4711"
      const { id, world } = yield* lostRequest({ account: () => account })
      account = "bank.example 47"
      yield* next(world, id)
      assert.isEmpty(world.reads)
    }))

  it.effect("need not begin where \"not found\" is final, but for an operation whose account is not known", () =>
    Effect.gen(function*() {
      let account: string | undefined
      const world = yield* makeWorld({
        submit: () => Effect.fail(new Uncertain({ reason: "the answer was lost" })),
        account: () => account,
        read: () => Effect.succeed(neverReceived)
      })
      const id = yield* world.acceptOne
      yield* world.work
      account = "first"
      yield* TestClock.adjust("1 hour")
      yield* next(world, id)
      assert.strictEqual(yield* world.stateOf(id), "indeterminate")
      account = undefined
      yield* next(world, id)
      assert.strictEqual(yield* world.stateOf(id), "failed")
    }))

  it.effect("waits for a permit of its own before each request, also where the limit is one request", () =>
    Effect.gen(function*() {
      const sentAt: Array<number> = []
      const { id, world } = yield* lostRequest({
        limit: { requests: 1, interval: "1 second" },
        fence: () =>
          Effect.gen(function*() {
            for (let request = 1; request <= 4; request++) {
              if (request > 1) assert.isTrue(yield* yield* NextRequest)
              sentAt.push(yield* Clock.currentTimeMillis)
            }
            return occupied
          })
      })
      for (let n = 0; n < 20 && sentAt.length === 0; n++) {
        const due = world.recordOf(id).due_at! - (yield* Clock.currentTimeMillis)
        yield* TestClock.adjust(Duration.millis(Math.max(0, due)))
        const reading = yield* Effect.forkChild(world.reconcile)
        for (let millis = 0; millis < 10_000; millis += 50) yield* TestClock.adjust("50 millis")
        yield* Fiber.join(reading)
      }
      assert.lengthOf(sentAt, 4)
      for (const [n, at] of sentAt.slice(1).entries()) assert.isAtLeast(at - sentAt[n]!, 1000)
      assert.strictEqual(yield* world.stateOf(id), "failed")
    }))

  it.effect("leaves only while its lease covers it, and a person cannot end the operation until then", () =>
    Effect.gen(function*() {
      let world: World
      const lasts = Duration.toMillis(fenceTimeout(defaultPolicy))
      const { id, ...made } = yield* lostRequest({
        fence: (_, { id }) =>
          Effect.gen(function*(): Effect.fn.Return<FenceAnswer, unknown> {
            const leavesUntil = (yield* SendDeadline)!
            assert.isAbove(leavesUntil, yield* Clock.currentTimeMillis)
            assert.isAtMost(leavesUntil + lasts, world.recordOf(id).due_at!)
            // By a clock that is ahead.
            const asked_at = DateTime.add(yield* DateTime.now, { seconds: 59 })
            const { revision } = yield* world.show(id)
            const answer = { by: "operator", ...evidenceOf({ created_at: asked_at }) }
            const failed = world.ledger.transition(id, revision, outcome("failed"), answer)
            assert.match((yield* Effect.flip(failed)).message, /may be under way until/)
            return occupied
          }).pipe(Effect.orDie)
      })
      world = made.world
      yield* untilBegun(world, id)
      yield* next(world, id)
      assert.deepInclude(yield* world.evidenceOf(id), { by: "fence" })
    }))

  it.effect("is followed by no failure by an answer to a person from before it, however often it ended without proof", () =>
    Effect.gen(function*() {
      const { fences, id, world } = yield* lostRequest({ answers: [waits] })
      yield* untilBegun(world, id)
      for (const sent of [1, 2, 3]) {
        // By a clock that is a minute ahead.
        const asked = DateTime.add(yield* DateTime.now, { minutes: 1 })
        yield* next(world, id)
        assert.lengthOf(fences, sent)
        yield* TestClock.adjust(fenceLease(defaultPolicy))
        const fail = (created_at: DateTime.Utc) =>
          Effect.flatMap(
            world.show(id),
            ({ revision }) =>
              world.ledger.transition(id, revision, outcome("failed"), {
                by: "operator",
                ...evidenceOf({ created_at })
              })
          )
        assert.match((yield* Effect.flip(fail(asked))).message, /Cancel the order that waits under this key/)
        yield* TestClock.adjust("1 minute")
        if (sent === 3) assert.strictEqual((yield* fail(yield* DateTime.now)).state, "failed")
      }
    }))

  const lateness: ReadonlyArray<readonly [how: string, of: "takeReads" | "mayFence", late: Duration.Duration]> = [
    ["by a reader that took the operation too long ago", "takeReads", fenceWithin(defaultPolicy)],
    ["by an authorization that is as old as storeTimeout", "mayFence", defaultPolicy.storeTimeout]
  ]
  for (const [how, of, wait] of lateness) {
    it.effect(`is not sent ${how}`, () =>
      Effect.gen(function*() {
        // How much later it is when the answer of the ledger arrives, by the monotonic clock.
        let late = Duration.zero
        let passed = 0n
        const isLate = <A, E>(statement: Effect.Effect<A, E>) =>
          Effect.tap(statement, () =>
            Effect.sync(() => {
              passed += Duration.toNanosUnsafe(late)
            }))
        const { fences, id, world } = yield* lostRequest({
          clock: ({ monotonicTimeNanos }) => ({
            monotonicTimeNanos: Effect.map(monotonicTimeNanos, (nanos) => nanos + passed)
          }),
          queue: ({ mayFence, takeReads }) =>
            of === "takeReads"
              ? { takeReads: (...args) => isLate(takeReads(...args)) }
              : { mayFence: (...args) => isLate(mayFence(...args)) }
        })
        yield* untilBegun(world, id)
        late = wait
        yield* next(world, id)
        assert.isEmpty(fences)
        late = Duration.zero
        yield* next(world, id)
        assert.lengthOf(fences, 1)
      }))
  }

  const never: ReadonlyArray<readonly [when: string, script: Script]> = [
    ["after the \"not found\" of a proxy", { read: () => Effect.succeed(notFound) }],
    ["for a payload that no order can fence", { fence: () => null }],
    ["after an answer about another operation", {
      read: () => Effect.succeed(StatusAnswer.NotFound({ names: { ...namesNothing, operation_id: "other" }, evidence }))
    }]
  ]
  for (const [when, script] of never) {
    it.effect(`never begins ${when}`, () =>
      Effect.gen(function*() {
        const { fences, id, world } = yield* lostRequest(script)
        yield* hour(world, id)
        assert.isNull(world.recordOf(id).fence_started_at)
        assert.isEmpty(fences)
      }))
  }

  it.effect("is not sent without a grant that allows to send, and neither is the operation read by its key", () =>
    Effect.gen(function*() {
      const { fences, id, world } = yield* lostRequest()
      yield* untilBegun(world, id)
      const reads = world.reads.length
      yield* world.grants.revoke(world.grant.grant_id)
      const { client_id, provider, resource_owner, subject } = world.grant
      yield* world.issue({ client_id, provider, resource_owner, subject, scopes: ["payments:write" as never] })
      yield* hour(world, id)
      assert.isEmpty(fences)
      assert.lengthOf(world.reads, reads)
    }))

  it.effect("is not sent while the provider is paused", () =>
    Effect.gen(function*() {
      let isKeyWrong = false
      const { fences, id, world } = yield* lostRequest({
        submit: () =>
          Effect.suspend(() =>
            Effect.fail(
              isKeyWrong
                ? new NotSent({ reason: "the key is wrong", isLocal: true })
                : new Uncertain({ reason: "the answer was lost" })
            )
          )
      })
      yield* untilBegun(world, id)
      isKeyWrong = true
      yield* world.acceptOne
      yield* world.work
      yield* hour(world, id)
      assert.isEmpty(fences)
      const warnings = world.logs.filter(({ message }) => String(message).startsWith("Status reads of a provider"))
      assert.isEmpty(warnings, "no provider gave an answer")
    }))

  it.effect("is not sent while the circuit of the submissions is open", () =>
    Effect.gen(function*() {
      const { fences, id, world } = yield* lostRequest()
      yield* untilBegun(world, id)
      yield* TestClock.adjust(Duration.millis(world.recordOf(id).due_at! - (yield* Clock.currentTimeMillis)))
      for (let lost = 1; lost < 5; lost++) {
        yield* world.acceptOne
        yield* world.work
      }
      yield* world.reconcile
      assert.isEmpty(fences)
      yield* next(world, id)
      assert.lengthOf(fences, 1)
    }))
})
