/**
 * The answer of a provider leaves its evidence, and a failure that the author of the adapter declared. A provider cannot make the gateway say
 * what only the gateway may say, and its text stands in no log and no span. The tests try answers of every shape, depth and size, and a
 * provider that refuses with the codes of the gateway and repeats the payload in its message.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, type Schema, Tracer } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { commonFailures } from "../../../../src/domain/GatewayFailures.ts"
import { isEvidence, isOperationFailure } from "../../../../src/domain/Operation.ts"
import { answered, publicFailure } from "../../../../src/submission/providers/AnswerRecord.ts"
import { namesNothing, StatusAnswer, SubmissionAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { acknowledged, makeWorld, type Script, workFor } from "../../../fixtures/submission/World.ts"

const nested = (levels: number): Schema.Json => levels === 0 ? 1 : [nested(levels - 1)]

/** Nested too deeply for recursion, although a JSON parser accepts such a body. */
const bottomless = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`) as Schema.Json

describe("Evidence", () => {
  it("holds the provider's answer unchanged", () => {
    for (const answer of [null, 0, "text", [], {}, { a: [{ b: "\u0000" }] }, nested(64)]) {
      assert.deepStrictEqual(answered("submission", answer), { by: "submission", answer })
    }
  })

  it("omits an answer that cannot be stored, and says so, so that the outcome is still recorded", () => {
    for (const answer of [nested(65), bottomless, "x".repeat(65_535), { a: "x".repeat(70_000) }]) {
      const evidence = answered("status_read", answer)
      assert.sameMembers(Object.keys(evidence), ["by", "answer_omitted"])
      assert.isBelow(JSON.stringify(evidence).length, 200)
    }
  })

  it("is always a non-empty object, which suffices to leave indeterminate", () => {
    for (const answer of [null, {}, [], bottomless]) assert.isTrue(isEvidence(answered("status_read", answer)))
  })
})

const failures = { limit_exceeded: { message: "The amount exceeds the limit." } }
const rejected = { code: "provider_rejected", message: "The provider refused the operation." }

describe("The failure that becomes public", () => {
  it("has the code and the message that the adapter declares, without other members", () => {
    const declared = { limit_exceeded: { message: "The amount exceeds the limit.", internal: "db-7" } }
    assert.deepStrictEqual(publicFailure(declared, "limit_exceeded"), {
      code: "limit_exceeded",
      message: "The amount exceeds the limit."
    })
  })

  it.each(Object.entries(commonFailures))(
    "is the common one for %s, unless the adapter declares it",
    (code, { message }) => {
      assert.deepStrictEqual(publicFailure(undefined, code), { code, message })
      assert.deepStrictEqual(publicFailure({ [code]: { message: "In other words." } }, code), {
        code,
        message: "In other words."
      })
    }
  )

  it.each(["LIMIT_EXCEEDED", "E-51", "", "toString", "__proto__", "provider_rejected", undefined as never])(
    "is provider_rejected for the code %j, which is not declared",
    (code) => {
      assert.deepStrictEqual(publicFailure(failures, code), rejected)
      assert.deepStrictEqual(publicFailure(undefined, code), rejected)
    }
  )

  it.each([
    "provider_never_received",
    "provider_unreachable",
    "provider_unavailable",
    "request_unsendable",
    "authorization_revoked",
    "payload_unreadable",
    "payload_altered",
    "provider_rejected"
  ])("never is the declared one for a code of the gateway, such as %j", (code) => {
    assert.deepStrictEqual(publicFailure({ [code]: { message: "No." } }, code), rejected)
  })

  it("is valid for every declaration", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 1200 }),
      fc.string(),
      fc.stringMatching(/^[a-z_0-9]*$/u)
    )
    fc.assert(
      fc.property(text, text, (code, message) => isOperationFailure(publicFailure({ [code]: { message } }, code)))
    )
  })

  it.effect("is logged once for each provider and code if the adapter does not declare it", () =>
    Effect.gen(function*() {
      const codes = ["E-51", "E-51", "limit_exceeded", "E-52", "provider_rejected", "E-51"]
      const accepted = codes.length
      const world = yield* makeWorld({
        failures,
        submit: () =>
          Effect.sync(() => SubmissionAnswer.Rejected({ code: codes.pop()!, names: namesNothing, evidence: null }))
      })
      const ids = yield* world.acceptMany(accepted)
      yield* world.work
      const given = world.logs.flatMap(({ annotations, level, message }) =>
        String(message).startsWith("An adapter refused")
          ? [[level, annotations["given"], annotations["published"]]]
          : []
      )
      assert.sameDeepMembers(given, [["WARN", "E-51", "provider_rejected"], ["WARN", "E-52", "provider_rejected"]])
      const shown = yield* Effect.forEach(ids, world.show)
      assert.isTrue(shown.every(({ state }) => state === "failed"), "a proven refusal stays one")
      assert.lengthOf(shown.filter(({ failure }) => failure?.code === "limit_exceeded"), 1)
    }))
})

/** What a client may take as leave to request again. */
const codes = [
  "provider_never_received",
  "Provider-Never-Received"
]

const secret = "DE89370400440532013000"
const providerText = `Invalid request: {"iban":"${secret}"}`

const refusal = (code: string) => ({
  code,
  names: namesNothing,
  evidence: { status: 422, body: { code, message: providerText } },
  // An adapter without type checks may pass the text of the provider on.
  message: providerText
})

/** The ways by which a provider refuses: at once, and by a status read. */
const ways: Readonly<Record<string, (code: string) => Script>> = {
  "an answer": (code) => ({ failures, submit: () => Effect.succeed(SubmissionAnswer.Rejected(refusal(code))) }),
  "a status read": (code) => ({
    failures,
    submit: () => Effect.succeed(acknowledged),
    read: () => Effect.succeed(StatusAnswer.Proven({ state: "failed", ...refusal(code) }))
  })
}

describe.each(Object.entries(ways))("A provider that refuses by %s", (_, scriptOf) => {
  const refuse = Effect.fnUntraced(function*(code: string) {
    const world = yield* makeWorld(scriptOf(code))
    const id = yield* world.acceptOne
    yield* workFor(world, "1 second")
    yield* TestClock.adjust(Duration.sum(world.policy.readSchedule.first, Duration.seconds(1)))
    yield* world.reconcile
    return { world, id }
  })

  it.effect.each(codes)("and says %s only refuses, with its evidence", (code) =>
    Effect.gen(function*() {
      const { id, world } = yield* refuse(code)
      const { failure, state } = yield* world.show(id)
      assert.strictEqual(state, "failed")
      assert.strictEqual(failure?.code, "provider_rejected")
      assert.deepInclude(yield* world.evidenceOf(id), {
        answer: { status: 422, body: { code, message: providerText } }
      })
      const [line] = world.logs.filter(({ message }) => String(message).startsWith("An adapter refused"))
      assert.deepInclude(line?.annotations, { given: code, published: "provider_rejected" })
    }))

  it.effect("and repeats the payload in its message leaves the declared failure to clients, and the code alone to the log and to spans", () =>
    Effect.gen(function*() {
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const { id, world } = yield* Effect.withTracer(refuse("limit_exceeded"), tracer)
      assert.deepStrictEqual((yield* world.show(id)).failure, {
        code: "limit_exceeded",
        message: "The amount exceeds the limit."
      })
      const [line] = world.logs.filter(({ message }) => message === "Operation failed")
      assert.deepStrictEqual([line?.level, line?.annotations], ["WARN", {
        provider: "bank",
        operation_id: id,
        code: "limit_exceeded"
      }])
      assert.notInclude(JSON.stringify(world.logs), secret)
      assert.isNotEmpty(spans)
      const told = spans.map(({ attributes, name, status }) => [name, [...attributes], status])
      assert.notInclude(JSON.stringify(told, (_, value) => typeof value === "bigint" ? String(value) : value), secret)
    }))
})
