/**
 * Operations as tasks of SEP-2663: the form of a task in each state, and the methods. The schemas of the tests follow
 * `schema/draft/schema.ts` of the extension.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Schema } from "effect"
import { TestClock } from "effect/testing"
import { isTerminal, type Operation, operationStates } from "../../../src/domain/Operation.ts"
import { adviceOnRefusal } from "../../../src/mcp/Advice.ts"
import { AgentReads, ReadRefused } from "../../../src/mcp/AgentReads.ts"
import { errorCodes, type JsonObject } from "../../../src/mcp/JsonRpc.ts"
import { answerOf, OperationAnswer, toolResultOf } from "../../../src/mcp/OperationAnswer.ts"
import { createdTask, declaresTasks, taskMethods, taskOf, tasksExtension } from "../../../src/mcp/OperationTasks.ts"
import { formOf, idOf, readsOf } from "../../fixtures/mcp/AgentOperations.ts"

const Instant = Schema.String.check(Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/))

const members = {
  taskId: Schema.String,
  statusMessage: Schema.String.check(Schema.isMinLength(1)),
  createdAt: Instant,
  lastUpdatedAt: Instant,
  ttlMs: Schema.NullOr(Schema.Int)
}

/** `WorkingTask` and `CompletedTask`: an operation is no other task. */
const DetailedTask = Schema.Union([
  Schema.Struct({ ...members, status: Schema.Literal("working"), pollIntervalMs: Schema.Int }),
  Schema.Struct({
    ...members,
    status: Schema.Literal("completed"),
    result: Schema.Struct({
      resultType: Schema.Literal("complete"),
      content: Schema.Tuple([Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })]),
      structuredContent: Schema.toEncoded(OperationAnswer),
      isError: Schema.Literal(false)
    })
  })
])

const decodeTask = Schema.decodeUnknownEffect(DetailedTask, { onExcessProperty: "error" })

/** All forms that an operation may have. Only one that is not final may be under review. */
const forms: ReadonlyArray<Operation> = operationStates.flatMap((state) => {
  const form = formOf(0, state, 30_000, 3)
  return isTerminal(state) ? [form] : [form, { ...form, under_review: true }]
})

const nameOf = ({ state, under_review }: Operation) => under_review ? `${state} under review` : state

const declared = (params: JsonObject = {}): JsonObject => ({
  ...params,
  _meta: { "io.modelcontextprotocol/clientCapabilities": { extensions: { [tasksExtension]: {} } } }
})

const accepted = readsOf(formOf(0, "accepted", 0))

const run = (method: string, params: JsonObject, reads = accepted) =>
  Effect.exit(Effect.provideService(taskMethods.get(method)!(params), AgentReads, reads))

/** The error that the method must fail with. */
const failure = (exit: Exit.Exit<JsonObject, unknown>) =>
  Exit.match(exit, {
    onSuccess: () => assert.fail("the method succeeded"),
    onFailure: (cause) => cause.reasons.map((reason) => reason._tag === "Fail" ? reason.error : reason)[0] as JsonObject
  })

const methods = [...taskMethods.keys()]

describe("the task of an operation", () => {
  for (const form of forms) {
    it.effect(`that is ${nameOf(form)} has the form of the extension`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(75_000)
        const task = yield* taskOf(form)
        const decoded = yield* decodeTask(JSON.parse(JSON.stringify(task)))
        const answer = yield* answerOf(form)
        assert.strictEqual(decoded.status, form.terminal ? "completed" : "working")
        assert.strictEqual(decoded.taskId, form.id)
        assert.strictEqual(decoded.statusMessage, answer.advice)
        assert.strictEqual(decoded.createdAt, "1970-01-01T00:00:00.000Z")
        assert.strictEqual(decoded.lastUpdatedAt, "1970-01-01T00:00:30.000Z")
        assert.isNull(decoded.ttlMs)
        if (decoded.status === "working") {
          assert.strictEqual(decoded.pollIntervalMs, answer.read_again_in_seconds! * 1000)
        } else assert.deepStrictEqual<unknown>(decoded.result, { resultType: "complete", ...toolResultOf(answer) })
      }))
  }

  it.effect("is created with the type task and without a result", () =>
    Effect.forEach(forms, (form) =>
      Effect.gen(function*() {
        const { result: _, ...members } = yield* taskOf(form)
        assert.deepStrictEqual(yield* createdTask(form), { resultType: "task", ...members })
      })))

  it("has a result whose text is its structured content", () => {
    const answer = { advice: "a", read_again_in_seconds: null, operation: formOf(0, "failed", 0) }
    const { content, structuredContent } = toolResultOf(answer) as {
      content: ReadonlyArray<{ text: string }>
      structuredContent: JsonObject
    }
    assert.deepStrictEqual(content.map(({ text }) => JSON.parse(text)), [structuredContent])
  })

  it("is never made of an operation that breaks the contract", () => {
    const broken = { ...formOf(0, "failed", 0), failure: null }
    assert.throws(() => toolResultOf({ advice: "a", read_again_in_seconds: null, operation: broken }))
  })
})

describe("a client", () => {
  it("declares the extension with the request itself, as an object", () => {
    const declaring = (extensions: unknown) =>
      declaresTasks({ _meta: { "io.modelcontextprotocol/clientCapabilities": { extensions } } })
    assert.isTrue(declaresTasks(declared()))
    assert.isTrue(declaring({ [tasksExtension]: {}, other: {} }))
    for (const extensions of [undefined, null, {}, [], "", { [tasksExtension]: null }, { [tasksExtension]: [] }]) {
      assert.isFalse(declaring(extensions), JSON.stringify(extensions))
    }
    for (const params of [{}, { _meta: null }, { _meta: {} }, { extensions: { [tasksExtension]: {} } }]) {
      assert.isFalse(declaresTasks(params), JSON.stringify(params))
    }
  })

  for (const method of methods) {
    it.effect(`that does not declare it is refused by ${method}, also for an unknown task`, () =>
      Effect.forEach([idOf(0), idOf(7), "x"], (taskId) =>
        Effect.gen(function*() {
          const error = failure(yield* run(method, { taskId }))
          assert.strictEqual(error["code"], errorCodes.missingClientCapability)
          assert.deepStrictEqual(error["data"], { requiredCapabilities: { extensions: { [tasksExtension]: {} } } })
        })))
  }
})

describe("the methods of tasks", () => {
  it("are those of the extension", () => {
    assert.deepStrictEqual(methods, ["tasks/get", "tasks/update", "tasks/cancel"])
  })

  for (const method of methods) {
    it.effect(`${method} refuses a malformed task id, and names the member`, () =>
      Effect.forEach(
        [undefined, null, 7, {}, [idOf(0)], "", idOf(0).toUpperCase(), `${idOf(0)} `],
        (taskId) =>
          Effect.gen(function*() {
            const error = failure(yield* run(method, declared({ taskId })))
            assert.strictEqual(error["code"], errorCodes.invalidParams)
            assert.include(String(error["message"]), "params.taskId")
          })
      ))

    it.effect(`${method} refuses a task that the grant may not read, without telling why`, () =>
      Effect.gen(function*() {
        const error = failure(yield* run(method, declared({ taskId: idOf(7) })))
        const message = `There is no such task. ${adviceOnRefusal("operation_not_found")}`
        assert.deepInclude(error, { code: errorCodes.invalidParams, message })
      }))

    it.effect(`${method} reads, so a refused grant ends it`, () =>
      Effect.gen(function*() {
        const refusal = new ReadRefused({ code: "grant_revoked", detail: "The grant was revoked." })
        const refused = readsOf(formOf(0, "accepted", 0), refusal)
        const error = failure(yield* run(method, declared({ taskId: idOf(0) }), refused))
        assert.strictEqual(error, refusal as unknown)
      }))
  }

  it.effect("tasks/get answers the task as it is, as a complete result", () =>
    Effect.forEach(forms, (form) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(
          yield* run("tasks/get", declared({ taskId: form.id }), readsOf(form)),
          Exit.succeed({ resultType: "complete", ...yield* taskOf(form) })
        )
      })))

  it.effect("tasks/update acknowledges with nothing else, with any responses", () =>
    Effect.forEach([undefined, null, {}, { unknown: 1 }, "text"], (inputResponses) =>
      Effect.gen(function*() {
        const exit = yield* run("tasks/update", declared({ taskId: idOf(0), inputResponses }))
        assert.deepStrictEqual(exit, Exit.succeed({ resultType: "complete" }))
      })))

  it.effect("tasks/cancel acknowledges, and says why nothing was cancelled and what to do", () =>
    Effect.gen(function*() {
      const exit = yield* run("tasks/cancel", declared({ taskId: idOf(0) }))
      const result = Exit.isSuccess(exit) ? exit.value : {}
      assert.deepStrictEqual(Object.keys(result).toSorted(), ["_meta", "resultType"])
      assert.strictEqual(result["resultType"], "complete")
      const reason = String((result["_meta"] as JsonObject)["financial-agents-gateway/reason"])
      for (
        const words of [
          "Nothing was cancelled",
          "may already have the request",
          "Do not send the request again",
          "Read the operation until"
        ]
      ) {
        assert.include(reason, words)
      }
    }))
})
