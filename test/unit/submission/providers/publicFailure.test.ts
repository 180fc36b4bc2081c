/** The failure that clients read has the form of the contract, whatever an adapter gives. The tests try any text. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { isOperationFailure } from "../../../../src/domain/Operation.ts"
import { namesNothing, SubmissionAnswer } from "../../../../src/submission/providers/ProviderAdapter.ts"
import { publicFailure } from "../../../../src/submission/providers/publicFailure.ts"
import { makeWorld } from "../../../fixtures/submission/World.ts"

const codeOf = (code: string) => publicFailure({ code, message: "No." }).code
const messageOf = (message: string) => publicFailure({ code: "LIMIT", message }).message

describe("The failure that becomes public", () => {
  it("has the provider's own code and message, without other members", () => {
    const failure = { code: "insufficient_funds", message: "Too little." }
    assert.deepStrictEqual(publicFailure({ ...failure, internal: "db-7" } as typeof failure), failure)
  })

  it.each([
    ["LIMIT", "limit"],
    ["E-51!", "e_51"],
    ["51", "provider_51"],
    ["  Insufficient   Funds. ", "insufficient_funds"],
    ["лимит", "provider_rejected"],
    ["", "provider_rejected"]
  ])("has the code %j as %j", (given, expected) => {
    assert.strictEqual(codeOf(given), expected)
  })

  it.each([
    "provider_never_received",
    "Provider-Never-Received",
    "provider_unreachable",
    "PROVIDER UNAVAILABLE",
    "request_unsendable",
    "authorization_revoked",
    "payload_unreadable",
    "payload.altered",
    "provider_rejected"
  ])("never has a code of the gateway, such as %j, and keeps the message", (code) => {
    assert.deepStrictEqual(publicFailure({ code, message: "No." }), { code: "provider_rejected", message: "No." })
  })

  it("has at most 64 characters of a code", () => {
    assert.strictEqual(codeOf("A".repeat(65)), "a".repeat(64))
    assert.strictEqual(codeOf("1".repeat(64)), `provider_${"1".repeat(55)}`)
  })

  it.each([
    ["Over the limit.", "Over the limit."],
    ["a\0b", "ab"],
    ["\ud800!", "\ufffd!"],
    ["", "The provider refused the operation."]
  ])("has the message %j as %j", (given, expected) => {
    assert.strictEqual(messageOf(given), expected)
  })

  it("has at most 1024 characters of a message", () => {
    assert.strictEqual(messageOf("x".repeat(1025)), "x".repeat(1024))
  })

  it("is valid for every code and message", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 1200 }),
      fc.string(),
      fc.constant("\ud800".repeat(1025))
    )
    fc.assert(fc.property(text, text, (code, message) => isOperationFailure(publicFailure({ code, message }))))
  })

  it("is what the adapter gave if that is valid", () => {
    const valid = fc.record({
      code: fc.stringMatching(/^[a-z][a-z0-9_]{0,63}$/u),
      message: fc.string({ unit: "binary", minLength: 1, maxLength: 512 })
    }).filter(isOperationFailure)
    fc.assert(fc.property(valid, (failure) => assert.deepStrictEqual(publicFailure(failure), failure)))
  })

  it("is made of values that are no text, too", () => {
    assert.isTrue(isOperationFailure(publicFailure({ code: undefined, message: 7 } as never)))
  })

  it.effect("is logged once for each provider and code if the adapter's had another form", () =>
    Effect.gen(function*() {
      const codes = ["LIMIT", "LIMIT", "limit", "E-51", "LIMIT"]
      const world = yield* makeWorld({
        submit: (_, operation) =>
          Effect.sync(() =>
            SubmissionAnswer.Rejected({
              code: codes.pop()!,
              message: `No: ${operation.type}`,
              names: namesNothing,
              evidence: null
            })
          )
      })
      const ids = yield* world.acceptMany(codes.length)
      yield* world.work
      const given = world.logs.flatMap(({ annotations, level, message }) =>
        String(message).startsWith("An adapter rejected")
          ? [[level, annotations["given"], annotations["published"]]]
          : []
      )
      assert.sameDeepMembers(given, [["WARN", "LIMIT", "limit"], ["WARN", "E-51", "e_51"]])
      for (const id of ids) assert.strictEqual((yield* world.show(id)).failure?.message, "No: payment")
    }))
})
