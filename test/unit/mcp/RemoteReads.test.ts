/**
 * The reads of the stdio server wait for another form than the known one, bridge a restart of the gateway, and name each refusal. A
 * scripted gateway answers, and time is a test clock.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Layer, Option, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { OperationId } from "../../../src/domain/Operation.ts"
import { AgentReads, type ReadRefused } from "../../../src/mcp/AgentReads.ts"
import * as RemoteReads from "../../../src/mcp/RemoteReads.ts"
import * as Scripted from "../../fixtures/client/ScriptedGateway.ts"
import { scriptedGateway, whileTimePasses } from "../../fixtures/client/TestTime.ts"

const token = "secret-token"
const id = OperationId.make(Scripted.id)

/** Runs the body with reads that the replies answer in order. The last reply repeats. */
const withReads = Effect.fnUntraced(function*<A, E>(
  replies: ReadonlyArray<Scripted.Reply>,
  body: (
    reads: AgentReads["Service"],
    gateway: Pick<ReturnType<typeof Scripted.scripted>, "received"> & { readonly failures: Array<string> }
  ) => Effect.Effect<A, E>
) {
  const gateway = yield* scriptedGateway(replies)
  const failures: Array<string> = []
  const reads = RemoteReads.layer({
    baseUrl: Scripted.baseUrl,
    accessToken: Redacted.make(token),
    onFailure: (cause) => Effect.sync(() => void failures.push(Cause.pretty(cause)))
  }).pipe(Layer.provide(FetchHttpClient.layer))
  return yield* Effect.flatMap(AgentReads, (service) => body(service, { ...gateway, failures })).pipe(
    Effect.provide(reads),
    Effect.provideService(FetchHttpClient.Fetch, gateway.fetch)
  )
})

const refusalOf = <A>(read: Effect.Effect<A, ReadRefused>) =>
  Effect.map(whileTimePasses(Effect.flip(read)), ({ code }) => code)

describe("RemoteReads", () => {
  it.effect("waits with the tag of the state that it knows, and gives the known state back after a 304", () =>
    withReads(
      [
        Scripted.read(Scripted.operation("accepted")),
        Scripted.unchanged(Scripted.operation("accepted"), { after: 5, applied: true }),
        Scripted.read(Scripted.operation("submitting", 2), { after: 3, applied: true })
      ],
      (reads, { received }) =>
        Effect.gen(function*() {
          const known = yield* whileTimePasses(reads.get(id))
          assert.deepStrictEqual(yield* whileTimePasses(reads.next(known, 5)), known)
          assert.deepInclude(yield* whileTimePasses(reads.next(known, 30)), { state: "submitting", revision: 2 })
          assert.deepStrictEqual(
            received.map(({ ifNoneMatch, prefer }) => [ifNoneMatch, prefer]),
            [[null, null], ["\"1\"", "wait=5"], ["\"1\"", "wait=30"]]
          )
          assert.deepStrictEqual(received.map(({ authorization }) => authorization), Array(3).fill(`Bearer ${token}`))
        })
    ))

  it.effect("bridges failures for 8 seconds, and then says that the gateway is unreachable, or why it refuses", () =>
    Effect.gen(function*() {
      const away = [Scripted.lost, Scripted.cut(), Scripted.text(502, "<h1>502</h1>")]
      const back = Scripted.read(Scripted.operation("accepted"))
      yield* withReads([...away, back], (reads, { failures }) =>
        Effect.gen(function*() {
          assert.deepInclude(yield* whileTimePasses(reads.get(id)), { state: "accepted" })
          assert.deepStrictEqual(failures, [])
        }))
      for (
        const [reply, code] of [
          [Scripted.lost, "gateway_unreachable"],
          [Scripted.cut(), "gateway_unreachable"],
          [Scripted.cut(503), "gateway_unreachable"],
          [Scripted.text(504, "timeout"), "gateway_unreachable"],
          [Scripted.problem("service_unavailable"), "service_unavailable"]
        ] as const
      ) {
        yield* withReads([reply], (reads, { failures, received }) =>
          Effect.gen(function*() {
            assert.strictEqual(yield* refusalOf(reads.get(id)), code)
            assert.approximately(received.at(-1)!.at, 8, 0.5, "the last attempt uses up the time")
            assert.isAbove(received.length, 3)
            assert.lengthOf(failures, code === "gateway_unreachable" ? 1 : 0)
            assert.notInclude(failures.join(), token)
          }))
      }
    }))

  it.effect("repeats no read after a refusal that stays, or after a longer pause than it may take", () =>
    Effect.forEach(
      [
        ["grant_revoked", Scripted.problem("grant_revoked")],
        ["operation_not_found", Scripted.problem("operation_not_found")],
        ["rate_limited", Scripted.problem("rate_limited", { "retry-after": "9" })],
        ["response_contract_failed", Scripted.text(200, "<h1>Hello</h1>")],
        ["response_contract_failed", Scripted.text(404, "<h1>Not found</h1>")],
        ["response_contract_failed", Scripted.text(301, "", { location: "https://elsewhere.test/" })],
        ["response_contract_failed", Scripted.json({ ...Scripted.operation("accepted"), state: "other" })]
      ] as const,
      ([code, reply]) =>
        withReads([reply], (reads, { received }) =>
          Effect.gen(function*() {
            assert.strictEqual(yield* refusalOf(reads.get(id)), code)
            // A redirection is not followed: it would show the read to another server.
            assert.deepStrictEqual(received.map(({ redirect }) => redirect), ["manual"])
          }))
    ))

  it.effect("refuses pages of the change feed and of the list that break the contract", () =>
    withReads([Scripted.json({ operations: "none" })], (reads) =>
      Effect.gen(function*() {
        assert.strictEqual(yield* refusalOf(reads.changes({})), "response_contract_failed")
        assert.strictEqual(yield* refusalOf(reads.list({})), "response_contract_failed")
      })))

  it.effect("says what the gateway said of its refusal", () =>
    withReads(
      [Scripted.problem("grant_revoked", {}, { detail: "The grant was revoked at noon." })],
      (reads) =>
        Effect.gen(function*() {
          const refusal = yield* whileTimePasses(Effect.flip(reads.list({})))
          assert.deepStrictEqual([refusal.code, refusal.detail], ["grant_revoked", "The grant was revoked at noon."])
        })
    ))

  it.effect("gives up 10 seconds after the wait if no answer comes, and does not repeat the read", () =>
    withReads(
      [Scripted.read(Scripted.operation("accepted")), Scripted.silent],
      (reads, { failures, received }) =>
        Effect.gen(function*() {
          const known = yield* whileTimePasses(reads.get(id))
          const begun = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
          assert.strictEqual(yield* refusalOf(reads.next(known, 20)), "gateway_unreachable")
          const ended = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
          assert.approximately((ended - begun) / 1000, 30, 0.5)
          assert.lengthOf(received, 2)
          assert.lengthOf(failures, 1)
        })
    ))

  it.effect("ends a read that its caller no longer needs", () =>
    withReads([Scripted.silent], (reads) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkChild(reads.get(id))
        yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
        const exit = yield* Fiber.interrupt(fiber).pipe(Effect.andThen(Fiber.await(fiber)))
        assert.isTrue(Exit.isFailure(exit) && Option.isNone(Cause.findErrorOption(exit.cause)))
      })))
})
