/**
 * `subscriptions/listen` announces every final state, and no state twice or out of order. Operations of a model take random ways
 * while reads and notifications take random times.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import type { Operation, OperationId } from "../../../src/domain/Operation.ts"
import { AgentReads, differs, ReadRefused } from "../../../src/mcp/AgentReads.ts"
import { maxFollowed } from "../../../src/mcp/FollowedOperations.ts"
import { errorCodes, type JsonObject, type JsonRpcNotification } from "../../../src/mcp/JsonRpc.ts"
import { taskOf, tasksExtension } from "../../../src/mcp/OperationTasks.ts"
import { uriOfOperation } from "../../../src/mcp/OperationUri.ts"
import { nextAmongOf, type WaitForOne } from "../../../src/mcp/SeparateWaits.ts"
import { listen } from "../../../src/mcp/Subscriptions.ts"
import { AgentModel, formOf, idOf } from "../../fixtures/AgentModel.ts"

const waits = ["one wait", "separate waits"] as const

const _meta = { "io.modelcontextprotocol/clientCapabilities": { extensions: { [tasksExtension]: {} } } }

const subscriptionId = "listen-1"

const idMeta = { "io.modelcontextprotocol/subscriptionId": subscriptionId }

/** A notification of a change, as the client received it. */
interface Received {
  readonly id: OperationId
  readonly kind: "resource" | "task"
  /** Milliseconds. */
  readonly at: number
  /** What the notification tells, or what a read tells that follows it. */
  readonly form: Operation
}

interface Client {
  readonly received: Array<Received>
  /** What the server acknowledged. */
  honoured: JsonObject | null
}

/** A client that checks each notification, and takes some time for it. */
const makeClient = (model: AgentModel, pauses: ReadonlyArray<number> = [0]) => {
  const client: Client = { received: [], honoured: null }
  let count = 0
  /** The form that the task shows. */
  const shownBy = Effect.fnUntraced(function*(task: JsonObject) {
    const forms = model.formsOf(task["taskId"] as OperationId)
    for (const { form } of forms.toReversed()) {
      const expected = yield* taskOf(form)
      if (JSON.stringify(expected) === JSON.stringify(task)) return form
    }
    return assert.fail(`no form of the operation is ${JSON.stringify(task)}`)
  })
  const notify = Effect.fnUntraced(function*({ jsonrpc, method, params }: JsonRpcNotification) {
    const { _meta, ...members } = params!
    assert.strictEqual(jsonrpc, "2.0")
    assert.deepStrictEqual(_meta, idMeta)
    const at = yield* Clock.currentTimeMillis
    if (client.honoured === null) {
      assert.strictEqual(method, "notifications/subscriptions/acknowledged")
      assert.deepStrictEqual(Object.keys(members), ["notifications"])
      client.honoured = members["notifications"] as JsonObject
    } else if (method === "notifications/tasks") {
      const form = yield* shownBy(members)
      client.received.push({ id: form.id, kind: "task", at, form })
    } else {
      assert.strictEqual(method, "notifications/resources/updated")
      assert.deepStrictEqual(Object.keys(members), ["uri"])
      const id = String(members["uri"]).slice("operation://".length) as OperationId
      client.received.push({ id, kind: "resource", at, form: model.current(id) })
    }
    yield* Effect.sleep(pauses[count++ % pauses.length]!)
  })
  return { client, notify }
}

/** Listens in a fiber of its own. */
const start = Effect.fnUntraced(function*(
  model: AgentModel,
  notifications: unknown,
  { kind = "one wait", pauses = [0], params = { _meta } }: {
    readonly kind?: typeof waits[number]
    readonly pauses?: ReadonlyArray<number>
    readonly params?: JsonObject
  } = {}
) {
  const { client, notify } = makeClient(model, pauses)
  const request = {
    jsonrpc: "2.0",
    id: subscriptionId,
    method: "subscriptions/listen",
    params: { ...params, notifications }
  } as const
  const fiber = yield* Effect.forkChild(Effect.provideService(listen(request, notify), AgentReads, model.reads(kind)))
  yield* TestClock.adjust(0)
  return { client, fiber }
})

/** The end of a fiber that must have ended: a test of a broken server fails, and does not hang. */
const endOf = <A, E>(fiber: Fiber.Fiber<A, E>) => fiber.pollUnsafe() ?? assert.fail("the fiber is still running")

const reasonOf = (result: JsonObject) => {
  assert.strictEqual(result["resultType"], "complete")
  const { "financial-agents-gateway/reason": reason, ...rest } = result["_meta"] as JsonObject
  assert.deepStrictEqual(rest, idMeta)
  return String(reason)
}

const failureOf = (exit: Exit.Exit<JsonObject, unknown>) =>
  Exit.match(exit, {
    onSuccess: () => assert.fail("the subscription succeeded"),
    onFailure: (cause) => cause.reasons.map((reason) => reason._tag === "Fail" ? reason.error : reason)[0] as JsonObject
  })

/** Operations 0 to 2 are those of the agent, and 3 is not. */
const owned = 3

const Latencies = Schema.NonEmptyArray(Schema.Literals([0, 1, 5, 20]))

/** A pause before the step, an operation, and which way it takes. */
const Steps = Schema.Array(Schema.Struct({
  pause: Schema.Literals([1, 2, 10, 30, 400, 61_000]),
  operation: Schema.Literals([0, 1, 2]),
  choice: Schema.Literals([0, 1, 2, 3, 4, 5])
})).check(Schema.isMaxLength(20))

const Interest = Schema.Literals(["none", "resource", "task", "both"])
const Interests = Schema.Tuple([Interest, Interest, Interest, Interest])

/** A form that stands this long, in milliseconds, is announced: all reads and notifications of a round take less. */
const longEnough = 1000

/** The notifications that the client wants, in the order of the numbers. */
const filterOf = (interests: typeof Interests.Type, own: number) => {
  const numbers = interests.map((interest, number) => ({ interest, number })).slice(0, own)
  const ids = (kind: "resource" | "task") =>
    numbers.filter(({ interest }) => interest === kind || interest === "both").map(({ number }) => idOf(number))
  return { resourceSubscriptions: ids("resource").map(uriOfOperation), taskIds: ids("task") }
}

/** The filter without its empty lists. */
const withoutEmpty = (filter: Readonly<Record<string, ReadonlyArray<string>>>) =>
  Object.fromEntries(Object.entries(filter).filter(([, names]) => names.length > 0))

describe("A subscription for many operations", () => {
  it.effect("has one read at a time in the store", () =>
    Effect.gen(function*() {
      const model = new AgentModel(8)
      const counts = { running: 0, most: 0, reads: 0 }
      const get: AgentReads["Service"]["get"] = (id) =>
        Effect.suspend(() => {
          counts.reads++
          counts.most = Math.max(counts.most, ++counts.running)
          return Effect.ensuring(
            Effect.delay(Effect.succeed(model.current(id)), 10),
            Effect.sync(() => counts.running--)
          )
        })
      const reads = AgentReads.of({ ...model.reads("one wait"), get, nextAmong: () => Effect.succeed([]) })
      const uris = Array.from({ length: 8 }, (_, n) => uriOfOperation(idOf(n)))
      const params = { notifications: { resourceSubscriptions: uris } }
      const listening = listen({ jsonrpc: "2.0", id: 1, method: "subscriptions/listen", params }, () => Effect.void)
      const fiber = yield* Effect.forkChild(Effect.provideService(listening, AgentReads, reads))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(counts, { running: 0, most: 1, reads: 8 })
    }))
})

describe("a subscription", () => {
  for (const kind of waits) {
    it.effect.prop(
      `with ${kind} announces what stands, each final state once, no older revision, and no foreign operation`,
      [Steps, Latencies, Latencies, Interests],
      ([steps, latencies, pauses, interests]) =>
        Effect.gen(function*() {
          const model = new AgentModel(owned, latencies)
          const begun = yield* Clock.currentTimeMillis
          const { client, fiber } = yield* start(model, filterOf(interests, 4), { kind, pauses })
          for (const { choice, operation, pause } of steps) {
            yield* TestClock.adjust(pause)
            yield* model.step(idOf(operation), choice)
          }
          for (let number = 0; number < owned; number++) {
            yield* TestClock.adjust(1)
            yield* model.finish(idOf(number))
          }
          yield* TestClock.adjust("2 minutes")
          const result = yield* endOf(fiber)
          const honoured = filterOf(interests, owned)
          assert.deepStrictEqual(client.honoured, withoutEmpty(honoured))
          assert.match(reasonOf(result), Object.keys(client.honoured!).length === 0 ? /none/ : /final/)

          const expected = [
            ...honoured.resourceSubscriptions.map((uri) => `resource ${uri.slice("operation://".length)}`),
            ...honoured.taskIds.map((id) => `task ${id}`)
          ]
          const all = new Set(client.received.map(({ id, kind }) => `${kind} ${id}`))
          assert.deepStrictEqual([...all].toSorted(), expected.toSorted())

          for (const name of expected) {
            const received = client.received.filter(({ id, kind }) => `${kind} ${id}` === name)
            const revisions = received.map(({ form }) => form.revision)
            assert.deepStrictEqual(revisions, revisions.toSorted((a, b) => a - b), name)
            assert.isTrue(received.at(-1)!.form.terminal, name)
            if (name.startsWith("task")) assert.lengthOf(received.filter(({ form }) => form.terminal), 1, name)
            const forms = model.formsOf(received[0]!.id)
            forms.forEach(({ at, form }, index) => {
              const end = forms[index + 1]?.at ?? Infinity
              // Changes before the acknowledgement are for the first read of the client.
              if (at < begun + longEnough || end - at < longEnough) return
              // A review that begins and ends between two reads has no revision of its own.
              const before = forms[index - 1]!
              if (before.form.revision === form.revision && at - before.at < longEnough) return
              const inTime = received.some((each) => each.at >= at && each.at < at + longEnough)
              assert.isTrue(inTime, `${name}: ${form.state} stood from ${at} to ${end}`)
            })
          }
        }),
      { arbitrary: { runs: 150 } }
    )

    it.effect(`with ${kind} announces a change that happens while it announces another one`, () =>
      Effect.gen(function*() {
        const model = new AgentModel(2)
        const filter = { taskIds: [idOf(0), idOf(1)] }
        const { client } = yield* start(model, filter, { kind, pauses: [0, 5000] })
        yield* model.move(idOf(0), "submitting")
        yield* TestClock.adjust(1000)
        yield* model.move(idOf(1), "failed")
        yield* TestClock.adjust(5000)
        assert.deepStrictEqual(client.received.map(({ form, id }) => [id, form.state]), [
          [idOf(0), "submitting"],
          [idOf(1), "failed"]
        ])
      }))

    it.effect(`with ${kind} leaves no wait behind when the client leaves`, () =>
      Effect.gen(function*() {
        const model = new AgentModel(3)
        const { fiber } = yield* start(model, { taskIds: [idOf(0), idOf(1), idOf(2)] }, { kind })
        assert.isAbove(model.waiting, 0)
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(model.waiting, 0)
      }))

    it.effect(`with ${kind} ends with the refusal once the grant is refused`, () =>
      Effect.gen(function*() {
        const model = new AgentModel(2)
        const { client, fiber } = yield* start(model, { taskIds: [idOf(0), idOf(1)] }, { kind })
        model.refusal = new ReadRefused({ code: "grant_revoked", detail: "The grant was revoked." })
        model.wake()
        yield* TestClock.adjust(1)
        assert.strictEqual(failureOf(endOf(fiber)), model.refusal as unknown)
        assert.lengthOf(client.received, 0)
      }))

    it.effect(`with ${kind} ends, and says so, once the gateway does not let it wait`, () =>
      Effect.gen(function*() {
        const model = new AgentModel(2)
        const { fiber } = yield* start(model, { taskIds: [idOf(0), idOf(1)] }, { kind })
        yield* TestClock.adjust("30 seconds")
        model.mayWait = false
        // The wait that runs ends without a change, and the next one does not wait.
        model.wake()
        yield* TestClock.adjust(1)
        assert.match(reasonOf(yield* endOf(fiber)), /ends the subscription.*listen again later/)
      }))
  }

  it.effect("outlives waits that end without a change", () =>
    Effect.gen(function*() {
      const model = new AgentModel(1)
      const { client, fiber } = yield* start(model, { taskIds: [idOf(0)] })
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(client.received, 0)
      yield* model.finish(idOf(0))
      yield* TestClock.adjust(1)
      assert.match(reasonOf(yield* endOf(fiber)), /final/)
    }))

  it.effect("announces the begin and the end of a review", () =>
    Effect.gen(function*() {
      const model = new AgentModel(1)
      const { client } = yield* start(model, { resourceSubscriptions: [uriOfOperation(idOf(0))] })
      for (const under_review of [true, false]) {
        yield* model.set({ ...model.current(idOf(0)), under_review })
        yield* TestClock.adjust(1)
      }
      assert.deepStrictEqual(client.received.map(({ form }) => form.under_review), [true, false])
    }))

  it.effect("announces at once an operation that is final at the beginning, and ends", () =>
    Effect.gen(function*() {
      const model = new AgentModel(1)
      yield* model.finish(idOf(0))
      const { client, fiber } = yield* start(model, { taskIds: [idOf(0)] })
      assert.match(reasonOf(yield* endOf(fiber)), /final/)
      assert.deepStrictEqual(client.received.map(({ form }) => form.terminal), [true])
    }))

  it.effect("announces no lower revision after the ledger was put back, but the final one", () =>
    Effect.gen(function*() {
      const model = new AgentModel(1)
      const { client, fiber } = yield* start(model, { taskIds: [idOf(0)] })
      const pass = function*(form: Operation) {
        yield* TestClock.adjust(1)
        yield* model.set(form)
        yield* TestClock.adjust(1)
      }
      yield* pass(formOf(0, "submitting", 1, 2))
      yield* pass(formOf(0, "indeterminate", 2, 3))
      yield* pass(formOf(0, "accepted", 0, 1))
      yield* pass(formOf(0, "failed", 5, 2))
      assert.deepStrictEqual(client.received.map(({ form }) => [form.state, form.revision]), [
        ["submitting", 2],
        ["indeterminate", 3],
        ["failed", 2]
      ])
      assert.match(reasonOf(yield* endOf(fiber)), /final/)
    }))

  it.effect("announces another state of the same revision after the ledger was put back", () =>
    Effect.gen(function*() {
      const model = new AgentModel(1)
      const { client } = yield* start(model, { taskIds: [idOf(0)] })
      yield* model.set(formOf(0, "submitting", 1, 2))
      yield* TestClock.adjust(1)
      yield* model.set(formOf(0, "cancelled", 2, 2))
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(client.received.map(({ form }) => form.state), ["submitting", "cancelled"])
    }))

  it.effect("honours no flag of a list, and ends if it names no operation", () =>
    Effect.gen(function*() {
      const flags = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }
      const { client, fiber } = yield* start(new AgentModel(1), flags)
      assert.match(reasonOf(yield* endOf(fiber)), /none/)
      assert.deepStrictEqual(client.honoured, {})
    }))

  it.effect("acknowledges each operation once, and none of another form or owner", () =>
    Effect.gen(function*() {
      const uri = uriOfOperation(idOf(0))
      const { client } = yield* start(new AgentModel(1), {
        resourceSubscriptions: [
          uri,
          uri,
          uriOfOperation(idOf(5)),
          uri.toUpperCase(),
          `${uri}/`,
          "https://x.example",
          ""
        ],
        taskIds: [idOf(0), idOf(0), idOf(5), "", "x"]
      })
      assert.deepStrictEqual(client.honoured, { resourceSubscriptions: [uri], taskIds: [idOf(0)] })
    }))

  it.effect("is not acknowledged to a grant that is refused", () =>
    Effect.gen(function*() {
      const model = new AgentModel(1)
      model.refusal = new ReadRefused({ code: "client_inactive", detail: "The client was deactivated." })
      const { client, fiber } = yield* start(model, { taskIds: [idOf(0)] })
      assert.strictEqual(failureOf(endOf(fiber)), model.refusal as unknown)
      assert.isNull(client.honoured)
    }))

  it.effect("names up to 16 operations: one named twice counts once", () =>
    Effect.gen(function*() {
      const filterFor = (count: number) => {
        const ids = Array.from({ length: count }, (_, n) => idOf(n))
        return { resourceSubscriptions: ids.map(uriOfOperation), taskIds: ids.slice(1) }
      }
      const { client } = yield* start(new AgentModel(maxFollowed + 1), filterFor(maxFollowed))
      assert.deepStrictEqual(client.honoured, filterFor(maxFollowed))
      const { client: other, fiber } = yield* start(new AgentModel(maxFollowed + 1), filterFor(maxFollowed + 1))
      assert.deepInclude(failureOf(endOf(fiber)), {
        code: errorCodes.invalidParams,
        message: "params.notifications may name up to 16 operations."
      })
      assert.isNull(other.honoured)
    }))

  it.effect("to tasks needs the capability of the extension, and one to resources does not", () =>
    Effect.gen(function*() {
      const model = new AgentModel(1)
      for (const taskIds of [[], [idOf(0)], [idOf(5)]]) {
        const { client, fiber } = yield* start(model, { taskIds }, { params: {} })
        const error = failureOf(endOf(fiber))
        assert.strictEqual(error["code"], errorCodes.missingClientCapability)
        assert.deepStrictEqual(error["data"], { requiredCapabilities: { extensions: { [tasksExtension]: {} } } })
        assert.isNull(client.honoured)
      }
      const filter = { resourceSubscriptions: [uriOfOperation(idOf(0))] }
      const { client } = yield* start(model, filter, { params: {} })
      assert.deepStrictEqual(client.honoured, filter)
    }))

  it.effect("refuses parameters of another form", () =>
    Effect.forEach([
      undefined,
      null,
      "all",
      { taskIds: idOf(0) },
      { taskIds: [1] },
      { resourceSubscriptions: {} },
      { resourceSubscriptions: [null] },
      { toolsListChanged: "yes" }
    ], (notifications) =>
      Effect.gen(function*() {
        const { client, fiber } = yield* start(new AgentModel(1), notifications)
        const error = failureOf(endOf(fiber))
        assert.strictEqual(error["code"], errorCodes.invalidParams)
        assert.include(String(error["message"]), "params.notifications")
        assert.isNull(client.honoured)
      })))
})

describe("a wait made of separate waits", () => {
  it.effect("returns the first change, and interrupts the other waits", () =>
    Effect.gen(function*() {
      const model = new AgentModel(3)
      const known = [0, 1, 2].map((n) => model.current(idOf(n)))
      const fiber = yield* Effect.forkChild(nextAmongOf(model.next)(known, 60))
      yield* TestClock.adjust(0)
      assert.strictEqual(model.waiting, 3)
      yield* model.move(idOf(1), "cancelled")
      yield* TestClock.adjust(0)
      assert.deepStrictEqual((yield* endOf(fiber)).map(({ state }) => state), ["cancelled"])
      assert.strictEqual(model.waiting, 0)
    }))

  it.effect("returns a change from before the call, and none when the time is over", () =>
    Effect.gen(function*() {
      const model = new AgentModel(2)
      const known = [0, 1].map((n) => model.current(idOf(n)))
      yield* model.move(idOf(1), "submitting")
      const first = yield* Effect.forkChild(nextAmongOf(model.next)(known, 60))
      yield* TestClock.adjust(0)
      const [changed] = yield* endOf(first)
      assert.isTrue(differs(changed!, known[1]!))
      const begun = yield* Clock.currentTimeMillis
      const fiber = yield* Effect.forkChild(nextAmongOf(model.next)([known[0]!, changed!], 60))
      yield* TestClock.adjust("60 seconds")
      assert.deepStrictEqual(yield* endOf(fiber), [])
      assert.strictEqual((yield* Clock.currentTimeMillis) - begun, 60_000)
    }))

  it.effect("waits on for the others when one of them must not wait", () =>
    Effect.gen(function*() {
      const model = new AgentModel(2)
      const known = [0, 1].map((n) => model.current(idOf(n)))
      const next: WaitForOne = (operation, seconds) =>
        operation.id === idOf(0) ? Effect.succeed(operation) : model.next(operation, seconds)
      const fiber = yield* Effect.forkChild(nextAmongOf(next)(known, 60))
      yield* TestClock.adjust("10 seconds")
      yield* model.move(idOf(1), "submitting")
      yield* TestClock.adjust(0)
      assert.deepStrictEqual((yield* endOf(fiber)).map(({ id }) => id), [idOf(1)])
    }))
})
