/**
 * The outbox example loses no change, whichever process dies. The tests run it as a process, between a real ledger and a receiver that
 * fails at random.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import type { Operation, OperationState } from "../../../src/domain/Operation.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { rounds } from "../../fixtures/Effort.ts"
import {
  type Answer,
  lastOf,
  type Receiver,
  startReceiver,
  stateIn,
  wentBack
} from "../../fixtures/examples/outboxReceiver.ts"
import { accept, drive, issue, PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { urlOf } from "../../fixtures/processes/CommandLine.ts"
import { type Dice, makeDice } from "../faults/kit/Dice.ts"
import { startOutbox } from "./outboxProcess.ts"

/** A ledger and a receiver, and the environment of an outbox between them. */
const world = Effect.gen(function*() {
  const database = yield* createDatabase()
  const receiver = yield* startReceiver
  const services = yield* Layer.build(
    PostgresServices.pipe(Layer.provideMerge(Layer.fresh(layerFor(database))), Layer.provide(Platform))
  )
  const environment = { DATABASE_URL: urlOf(database), WEBHOOK_URL: receiver.url }
  return { receiver, services, environment }
})

/** Where an operation that never settles goes next. */
const onward: Partial<Record<OperationState, OperationState>> = {
  accepted: "submitting",
  submitting: "submitted",
  submitted: "indeterminate",
  indeterminate: "submitted"
}

const acceptSome = Effect.gen(function*() {
  const { identity } = yield* issue()
  const accepted = yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8], () => accept(identity))
  return { identity, operations: accepted.map(({ operation }) => operation) }
})

const step = Effect.fnUntraced(function*({ id }: Operation, dice: Dice) {
  const ledger = yield* OperationLedger
  const operation = yield* ledger.show(id)
  if (dice.below(3) === 0) return yield* ledger.review(id, !operation.under_review)
  return yield* drive(operation, [onward[operation.state]!])
})

/** Moves each operation at its own random pace, for ever. */
const moveAll = (operations: ReadonlyArray<Operation>, dice: Dice) =>
  Effect.forEach(
    operations,
    (operation) =>
      Effect.forever(Effect.andThen(step(operation, dice), Effect.suspend(() => Effect.sleep(dice.below(60))))),
    { concurrency: "unbounded", discard: true }
  )

const stateOf = ({ id, revision, under_review }: Operation) => `${id}.${revision}${under_review ? ".review" : ""}`

/** Waits until the receiver has the present state of each operation. */
const untilDelivered = Effect.fnUntraced(function*(operations: ReadonlyArray<Operation>, receiver: Receiver) {
  const ledger = yield* OperationLedger
  const current = yield* Effect.forEach(operations, ({ id }) => ledger.show(id))
  while (current.some((operation) => lastOf(receiver.delivered).get(operation.id) !== stateOf(operation))) {
    yield* Effect.sleep("20 millis")
  }
})

/** Waits until the receiver got this many more requests. */
const untilMore = (receiver: Receiver, count: number) =>
  Effect.gen(function*() {
    const enough = receiver.requests() + count
    while (receiver.requests() < enough) yield* Effect.sleep("1 millis")
  })

/** Each delivered state is one of the ledger's history, with the names of its owner. */
const checkBodies = Effect.fnUntraced(function*({ delivered }: Receiver, { client_id, subject }: {
  readonly client_id: string
  readonly subject: string
}) {
  const ledger = yield* OperationLedger
  for (const { body } of delivered) {
    assert.deepStrictEqual([body.client_id, body.subject], [client_id, subject])
    assert.deepStrictEqual(Object.keys(body), ["operation", "client_id", "subject"])
  }
  const states = new Map(delivered.map(({ body: { operation } }) => [operation.id, operation]))
  for (const { id, revision, state } of states.values()) {
    const history = yield* ledger.history(id as Operation["id"])
    assert.strictEqual(history.find((entry) => entry.revision === revision)?.to, state)
  }
})

const failures: ReadonlyArray<ReturnType<Answer>> = [503, 500, 307, "reset", null]

/** Fails five requests of thirty. */
const atRandom = (dice: Dice): Answer => () => failures[dice.below(30)] ?? 200

const holderOf = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql<{ readonly holder: string | null; readonly token: string | null }>`SELECT holder, token FROM outbox_positions`
)

describe("The outbox example", () => {
  it.live("delivers each last state, in order, although it is killed and the receiver fails at random", () =>
    Effect.gen(function*() {
      const seed = randomBytes(4).toString("hex")
      yield* Effect.logInfo(`seed ${seed}`)
      const dice = makeDice(seed, "outbox")
      const { environment, receiver, services } = yield* world
      yield* Effect.gen(function*() {
        const { identity, operations } = yield* acceptSome
        receiver.answerWith(atRandom(dice))
        for (let kill = 1; kill <= rounds(3, 12); kill++) {
          const doomed = yield* startOutbox({ ...environment, OUTBOX_LEASE: "2 seconds" })
          // Every third dies at any moment of its start. The others deliver first what earlier ones may have lost.
          if (kill % 3 === 0) yield* Effect.sleep(dice.below(1500))
          else {
            yield* untilDelivered(operations, receiver)
            yield* moveAll(operations, dice).pipe(Effect.raceFirst(untilMore(receiver, dice.below(20))))
            yield* untilDelivered(operations, receiver).pipe(Effect.raceFirst(untilMore(receiver, dice.below(8))))
          }
          assert.strictEqual(yield* doomed.stop("SIGKILL"), "SIGKILL", doomed.log())
        }
        const last = yield* startOutbox({ ...environment, OUTBOX_LEASE: "2 seconds" })
        // A change that only the last one can deliver, so it has started when all are delivered.
        const [{ id }] = operations as [Operation]
        const ledger = yield* OperationLedger
        yield* ledger.review(id, !(yield* ledger.show(id)).under_review)
        yield* untilDelivered(operations, receiver)
        assert.strictEqual(yield* last.stop("SIGTERM"), 0, last.log())
        assert.deepStrictEqual(receiver.errors, [])
        assert.deepStrictEqual(wentBack(receiver.delivered), [])
        yield* checkBodies(receiver, identity)
      }).pipe(Effect.provide(services))
    }))

  it.live("runs in two copies, of which one publishes: the other takes over after SIGTERM and after SIGKILL", () =>
    Effect.gen(function*() {
      const { environment, receiver, services } = yield* world
      const dice = makeDice("two copies", "outbox")
      yield* Effect.gen(function*() {
        const { operations } = yield* acceptSome
        const moving = yield* Effect.forkChild(moveAll(operations, dice))
        let active = yield* startOutbox({ ...environment, OUTBOX_LEASE: "10 minutes" })
        yield* active.logs(/"Publishing"/)
        for (const signal of ["SIGTERM", "SIGKILL"] as const) {
          const waiting = yield* startOutbox({ ...environment, OUTBOX_LEASE: "4 seconds" })
          yield* waiting.logs(/"Waiting for the lease/)
          // Two pages: each has every operation at most once.
          yield* untilMore(receiver, 2 * operations.length)
          // On a busy machine the short lease may be lost. Two at once would also be errors of the receiver.
          if (signal === "SIGTERM") assert.notMatch(waiting.log(), /"Publishing"/)
          assert.strictEqual(yield* active.stop(signal), signal === "SIGTERM" ? 0 : signal)
          yield* waiting.logs(/"Publishing"/)
          yield* untilMore(receiver, operations.length)
          active = waiting
        }
        yield* Fiber.interrupt(moving)
        yield* untilDelivered(operations, receiver)
        assert.deepStrictEqual(receiver.errors, [])
        assert.deepStrictEqual(wentBack(receiver.delivered), [])
      }).pipe(Effect.provide(services))
    }))

  it.live("finishes the delivery under way on SIGTERM, gives the lease back, and continues behind it later", () =>
    Effect.gen(function*() {
      const { environment, receiver, services } = yield* world
      yield* Effect.gen(function*() {
        const { operations } = yield* acceptSome
        const [first] = operations
        const outbox = yield* startOutbox({ ...environment, OUTBOX_LEASE: "10 minutes" })
        yield* untilDelivered(operations, receiver)
        while ((yield* holderOf)[0]?.token === null) yield* Effect.sleep("20 millis")
        const before = receiver.delivered.length
        const requests = receiver.requests()
        let acknowledge: (status: number) => void = () => {}
        const answered = new Promise<number>((resolve) => acknowledge = resolve)
        receiver.answerWith(() => answered)
        yield* drive(first!, ["submitting"])
        while (receiver.requests() === requests) yield* Effect.sleep("1 millis")
        const stopping = yield* Effect.forkChild(outbox.stop("SIGTERM"))
        // Time for the signal to arrive: the request must outlive it.
        yield* Effect.sleep("500 millis")
        acknowledge(200)
        assert.strictEqual(yield* Fiber.join(stopping), 0, outbox.log())
        assert.strictEqual(receiver.aborted(), 0)
        assert.isNull((yield* holderOf)[0]!.holder)

        receiver.answerWith(() => 200)
        yield* drive(yield* (yield* OperationLedger).show(first!.id), ["submitted"])
        yield* startOutbox(environment)
        yield* untilDelivered(operations, receiver)
        const later = new Set(receiver.delivered.slice(before).map(({ body }) => body.operation.id))
        assert.deepStrictEqual([...later], [first!.id], "the others were not delivered again")
      }).pipe(Effect.provide(services))
    }))

  it.live("begins with the first operation again when the ledger has another history, and warns", () =>
    Effect.gen(function*() {
      const { environment, receiver, services } = yield* world
      yield* Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const { operations } = yield* acceptSome
        const before = yield* startOutbox(environment)
        yield* untilDelivered(operations, receiver)
        while ((yield* holderOf)[0]?.token === null) yield* Effect.sleep("20 millis")
        assert.strictEqual(yield* before.stop("SIGTERM"), 0)
        assert.notMatch(before.log(), /"WARN"/i)
        yield* sql`UPDATE ledger_home SET history = gen_random_uuid()`
        const known = receiver.delivered.length
        const after = yield* startOutbox(environment)
        while (receiver.delivered.length < known + operations.length) yield* Effect.sleep("20 millis")
        assert.deepStrictEqual(
          receiver.delivered.slice(known).map(({ webhookId }) => stateIn(webhookId)).toSorted(),
          receiver.delivered.slice(0, known).map(({ webhookId }) => stateIn(webhookId)).toSorted()
        )
        const ids = new Set(receiver.delivered.map(({ webhookId }) => webhookId))
        assert.strictEqual(ids.size, known + operations.length, "a receiver that drops known ids takes them all")
        yield* after.logs(/"WARN".*restored or failed over|restored or failed over.*"WARN"/i)
      }).pipe(Effect.provide(services))
    }))

  it.live("refuses a wrong secret at the start, and does not print it", () =>
    Effect.gen(function*() {
      const { environment } = yield* world
      const outbox = yield* startOutbox({ ...environment, WEBHOOK_SECRET: "whsec_dG9vIHNob3J0" })
      assert.strictEqual(yield* outbox.stop("SIGCONT"), 1)
      assert.include(outbox.log(), "24 to 64 bytes in base64")
      assert.notInclude(outbox.log(), "dG9vIHNob3J0")
    }))
})
