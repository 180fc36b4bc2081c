/**
 * "The public form omits provider-specific data": clients read a failure that the author of the adapter declared, whatever the
 * adapter says.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { isOperationFailure } from "../../../../src/domain/Operation.ts"
import { publicFailure } from "../../../../src/submission/providers/AnswerRecord.ts"
import { namesNothing, SubmissionAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { makeWorld } from "../../../fixtures/submission/World.ts"

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
