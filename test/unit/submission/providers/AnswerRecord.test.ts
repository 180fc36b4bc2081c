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
import * as w from "../../../fixtures/submission/WorkerStories.ts"

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

const undeclared = ["E-51", "E-51", "limit_exceeded", "E-52", "provider_rejected", "E-51"]

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
})

w.tell("The code of a failure that the adapter does not declare", {
  "is logged once for each provider": [
    w.given({ failures }),
    w.answersBy((n) =>
      Effect.succeed(SubmissionAnswer.Rejected({ code: undeclared[n]!, names: namesNothing, evidence: null }))
    ),
    // A proven refusal stays one.
    [w.accept(undeclared.length), w.work(), w.is("failed"), w.failed("limit_exceeded", undefined, 2)],
    w.check(({ world }) => {
      const given = world.logs.filter(({ message }) => String(message).startsWith("An adapter refused")).map((
        { annotations, level }
      ) => [level, annotations["given"], annotations["published"]])
      assert.sameDeepMembers(given, [["WARN", "E-51", "provider_rejected"], ["WARN", "E-52", "provider_rejected"]])
    })
  ]
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
const ways: ReadonlyArray<readonly [way: string, refuse: (code: string) => w.Step]> = [
  ["an answer", (code) => w.answers(Effect.succeed(SubmissionAnswer.Rejected(refusal(code))))],
  ["a status read", (code) => w.finds(StatusAnswer.Proven({ state: "failed", ...refusal(code) }))]
]
const spans: Array<Tracer.Span> = []
const tracer = Tracer.make({
  span: (options) => {
    const span = new Tracer.NativeSpan(options)
    spans.push(span)
    return span
  }
})
const traced: w.Step = ({ world }) =>
  Effect.gen(function*() {
    yield* world.work
    yield* TestClock.adjust(Duration.sum(world.policy.readSchedule.first, Duration.seconds(1)))
    yield* world.reconcile
  }).pipe(Effect.withTracer(tracer))

for (const [way, refuse] of ways) {
  w.tell(`A provider that refuses by ${way}`, {
    ...w.each(codes, (code) => `and says ${code} only refuses, with its evidence`, (code) => [
      [w.given({ failures }), refuse(code), w.accept(), traced, w.failed("provider_rejected")],
      w.evidenceHas({ answer: { status: 422, body: { code, message: providerText } } }),
      w.check(({ world }) => {
        const [line] = world.logs.filter(({ message }) => String(message).startsWith("An adapter refused"))
        assert.deepInclude(line?.annotations, { given: code, published: "provider_rejected" })
      })
    ]),
    "and repeats the payload in its message leaves the declared failure to clients, and the code alone to the log and to spans":
      [
        [w.given({ failures }), w.check(() => spans.splice(0)), refuse("limit_exceeded"), w.accept(), traced],
        w.failed("limit_exceeded", "The amount exceeds the limit."),
        w.logged("Operation failed", ({ ids }) => [
          ["WARN", { provider: "bank", operation_id: ids[0], code: "limit_exceeded" }]
        ]),
        w.check(({ world }) => {
          assert.isNotEmpty(spans)
          const told = spans.map(({ attributes, name, status }) => [name, [...attributes], status])
          const shown = [world.logs, told]
          assert.notInclude(
            JSON.stringify(shown, (_, value) => typeof value === "bigint" ? String(value) : value),
            secret
          )
        })
      ]
  })
}
