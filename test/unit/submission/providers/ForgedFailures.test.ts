/**
 * A provider cannot make the gateway say what only the gateway may say, and its text stands in no log and no span. The tests run worker and
 * reconciler against a provider that refuses with the gateway's codes, and repeats the payload in its message.
 */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Tracer } from "effect"
import { TestClock } from "effect/testing"
import { namesNothing, StatusAnswer, SubmissionAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { acknowledged, makeWorld, type Script, workFor } from "../../../fixtures/submission/World.ts"

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

const failures = { limit_exceeded: { message: "The amount exceeds the limit." } }

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
