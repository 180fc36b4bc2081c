/**
 * The adapter for the sandbox follows its protocol, and takes only documented answers as evidence. The tests use a raw
 * socket server and a real sandbox.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Result, Schema } from "effect"
import type { ProviderOperation } from "../../../../src/domain/Submission.ts"
import * as ProviderHttpClient from "../../../../src/node/http/ProviderHttpClient.ts"
import { SandboxAnswer, SandboxProblem, SandboxStatus } from "../../../../src/sandbox/Protocol.ts"
import { Sandbox } from "../../../../src/sandbox/Sandbox.ts"
import * as SandboxProvider from "../../../../src/submission/http/SandboxProvider.ts"
import { type Proven, ProviderAdapter, StatusAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import {
  answering,
  inMillis,
  operationOf,
  rawServer,
  response
} from "../../../fixtures/submission/HttpProviderServer.ts"

const client = ProviderHttpClient.layer()

const adapter = (options: SandboxProvider.SandboxProviderOptions) =>
  Effect.map(Layer.build(SandboxProvider.layer(options)), (context) => Context.get(context, ProviderAdapter))

const answer = (value: typeof SandboxAnswer.Type) => JSON.stringify(Schema.encodeSync(SandboxAnswer)(value))
const statusOf = (value: typeof SandboxStatus.Type) => JSON.stringify(Schema.encodeSync(SandboxStatus)(value))
const problem = (code: string, key?: string) =>
  JSON.stringify(
    Schema.encodeSync(SandboxProblem)({ code, message: "Why.", ...key !== undefined && { idempotency_key: key } })
  )

const submitted = (status: number, body: string) =>
  Effect.gen(function*() {
    const server = yield* rawServer(answering(response(status, body)))
    const { submit } = yield* adapter({ baseUrl: server.url })
    return Result.merge(yield* Effect.result(submit(operationOf(), { amount: "1.00" }))) as object
  })

const read = (status: number, body: string, operation: ProviderOperation) =>
  Effect.gen(function*() {
    const server = yield* rawServer(answering(response(status, body)))
    const { readStatus } = yield* adapter({ baseUrl: server.url })
    return { answer: yield* readStatus(operation, null), server }
  })

describe("The adapter for the sandbox", () => {
  const idempotency_key = "the-key"
  const pending = { reference: "sbx_1", idempotency_key, status: "pending" } as const
  const succeeded = { reference: "sbx_1", idempotency_key, status: "succeeded" } as const

  const answers: ReadonlyArray<readonly [what: string, status: number, body: string, outcome: object]> = [
    ["202 pending keeps the answer as evidence", 202, answer(pending), { evidence: { status: 202, body: pending } }],
    ["409 too_late is evidence that nothing was done, nor will be", 409, problem("too_late"), {
      _tag: "Rejected",
      code: "too_late",
      evidence: { status: 409, body: { code: "too_late", message: "Why." } }
    }],
    ["409 with another code is uncertain", 409, problem("conflict"), { _tag: "Uncertain" }],
    ["202 that says succeeded is uncertain", 202, answer(succeeded), { _tag: "Uncertain" }],
    ["200 that says pending is uncertain", 200, answer(pending), { _tag: "Uncertain" }],
    ["an empty reference is uncertain", 202, answer({ ...pending, reference: "" }), { _tag: "Uncertain" }],
    ["422 is a refusal with any code", 422, problem("E-42 / no funds"), {
      _tag: "Rejected",
      code: "E-42 / no funds"
    }],
    ["400 is a refusal: nothing was executed", 400, problem("invalid_request"), {
      _tag: "Rejected",
      code: "invalid_request"
    }],
    ["429 too_many_requests is a refusal for now: nothing was done", 429, problem("too_many_requests"), {
      _tag: "NotSent",
      isRefused: true
    }],
    ["401 unauthorized waits for another key: nothing was done", 401, problem("unauthorized"), {
      _tag: "NotSent",
      isLocal: true
    }]
  ]
  for (const [what, status, body, outcome] of answers) {
    it.live(what, () =>
      Effect.gen(function*() {
        assert.deepInclude(yield* submitted(status, body), outcome)
      }).pipe(Effect.provide(client)))
  }

  const statuses: ReadonlyArray<readonly [what: string, status: number, body: string, outcome: object]> = [
    ["pending keeps the answer as evidence", 200, statusOf(pending), { evidence: { status: 200, body: pending } }],
    ["an answer without the key proves nothing", 200, `{"reference":"sbx_1","status":"succeeded"}`, {
      _tag: "NotProven",
      reason: "unclear"
    }],
    ["failed without a code proves nothing", 200, JSON.stringify({ ...pending, status: "failed" }), {
      _tag: "NotProven",
      reason: "unclear"
    }],
    ["an unknown status proves nothing", 200, JSON.stringify({ ...pending, status: "done" }), {
      _tag: "NotProven",
      reason: "unclear"
    }]
  ]
  for (const [what, status, body, outcome] of statuses) {
    it.live(`A status read: ${what}`, () =>
      Effect.gen(function*() {
        const operation = operationOf({ send_before: yield* inMillis(-1e6) })
        const { answer, server } = yield* read(status, body, operation)
        assert.deepInclude(answer, outcome)
        assert.match(server.requests[0]!.head, new RegExp(`^GET /mutations/${operation.id} HTTP/1`))
      }).pipe(Effect.provide(client)))
  }

  it.live("A status read: not found names its key, and is evidence only in the form of the sandbox", () =>
    Effect.gen(function*() {
      const operation = operationOf({ send_before: yield* inMillis(-2000) })
      const body = problem("not_found", "another")
      assert.deepStrictEqual(
        (yield* read(404, body, operation)).answer,
        StatusAnswer.NotFound({
          names: { reference: null, operation_id: "another" },
          evidence: { status: 404, body: JSON.parse(body) }
        })
      )
      assert.deepInclude((yield* read(404, problem("no_route"), operation)).answer, {
        _tag: "NotFound",
        evidence: null
      })
    }).pipe(Effect.provide(client)))
})

describe("The adapter and the sandbox itself", () => {
  const scene = Effect.map(
    Layer.build(Sandbox.layer()),
    (context) => Context.get(context, Sandbox)
  ).pipe(Effect.bindTo("sandbox"), Effect.bind("provider", ({ sandbox }) => adapter({ baseUrl: sandbox.url })))

  const ask = (sandbox: Schema.Json): Schema.Json => ({ amount: "1.00", sandbox })

  const outcomes: ReadonlyArray<readonly [Schema.Json, submitted: object, read: object]> = [
    [{ outcome: "succeeded" }, { _tag: "Succeeded" }, { _tag: "Proven", state: "succeeded" }],
    [{ outcome: "pending" }, { _tag: "Acknowledged" }, { _tag: "Proven", state: "submitted" }],
    [
      { outcome: "rejected", code: "account_closed" },
      { _tag: "Rejected", code: "account_closed" },
      { _tag: "Proven", state: "failed", code: "account_closed" }
    ],
    [{ outcome: "succeeded", faults: { drop_response: true } }, { _tag: "Uncertain" }, {
      _tag: "Proven",
      state: "succeeded"
    }],
    [{ faults: { lose: true } }, { _tag: "Uncertain" }, { _tag: "NotFound" }]
  ]
  for (const [instruction, submitted, read] of outcomes) {
    it.live(`agree on ${JSON.stringify(instruction)}, which is received once`, () =>
      Effect.gen(function*() {
        const { provider, sandbox } = yield* scene
        const operation = operationOf({ send_before: yield* inMillis(60_000) })
        const outcome = yield* Effect.result(provider.submit(operation, ask(instruction)))
        assert.deepInclude(Result.merge(outcome) as object, submitted)
        assert.deepInclude(yield* provider.readStatus(operation, null), read)
        assert.deepStrictEqual((yield* sandbox.record).map(({ key }) => key), [operation.id])
      }).pipe(Effect.provide(client)))
  }

  it.live("agree that a duplicate key is uncertain, when the sandbox rejects it", () =>
    Effect.gen(function*() {
      const { provider, sandbox } = yield* scene
      const operation = operationOf()
      const payload = ask({ outcome: "succeeded" })
      assert.strictEqual((yield* provider.submit(operation, payload))._tag, "Succeeded")
      yield* sandbox.setFaults({ duplicate_key_rejected: { rate: 1 } })
      assert.strictEqual((yield* Effect.flip(provider.submit(operation, payload)))._tag, "Uncertain")
    }).pipe(Effect.provide(client)))

  it.live("agree on the operation of an answer, and a foreign answer names its own operation", () =>
    Effect.gen(function*() {
      const { provider, sandbox } = yield* scene
      const operation = operationOf()
      const submitted = yield* provider.submit(operation, ask({ outcome: "pending" }))
      assert.strictEqual(submitted.names.operation_id, operation.id)
      const read = () => Effect.map(provider.readStatus(operation, null), (answer) => answer as Proven)
      assert.deepStrictEqual((yield* read()).names, submitted.names)
      yield* sandbox.setFaults({ foreign_answer: { rate: 1 } })
      const foreign = yield* read()
      assert.deepInclude(foreign, { _tag: "Proven", state: "succeeded" })
      assert.notStrictEqual(foreign.names.operation_id, operation.id)
      assert.notStrictEqual(foreign.names.reference, submitted.names.reference)
    }).pipe(Effect.provide(client)))

  it.live("agree that nothing was sent when the port is closed", () =>
    Effect.gen(function*() {
      const { provider, sandbox } = yield* scene
      yield* sandbox.setFaults({ refuse_connection: { rate: 1 } })
      assert.strictEqual((yield* Effect.flip(provider.submit(operationOf(), {})))._tag, "NotSent")
      assert.deepInclude(yield* provider.readStatus(operationOf(), null), { _tag: "NotProven", reason: "unreachable" })
    }).pipe(Effect.provide(client)))
})
