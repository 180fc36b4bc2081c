/**
 * The public form of an operation follows the specification's states section. The tests encode and decode every
 * combination of state and members.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as fc from "fast-check"
import {
  acceptedAt,
  isOperationId,
  Operation,
  OperationFailure,
  OperationId,
  type OperationState,
  OperationType
} from "../../../src/domain/Operation.ts"
import { Timestamp } from "../../../src/domain/Timestamp.ts"
import { publicMembers, specifiedStates, uncertainStates } from "../../fixtures/Specification.ts"

const isOperation = Schema.is(Operation)
const terminalStates: ReadonlyArray<string> = ["succeeded", "failed", "cancelled"]

/** Members that an operation may have in every state, and members that it has only in some. */
const Parts = Schema.Struct({
  id: OperationId,
  type: OperationType,
  under_review: Schema.Boolean,
  revision: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2 ** 31 - 1 })),
  created_at: Timestamp,
  updated_at: Timestamp,
  completed_at: Timestamp,
  failure: OperationFailure
})

/** The operation that the specification's states section builds from these parts. */
const consistent = ({ completed_at, failure, ...parts }: typeof Parts.Type, state: OperationState): Operation => ({
  ...parts,
  state,
  terminal: terminalStates.includes(state),
  submission_uncertain: uncertainStates.includes(state),
  completed_at: terminalStates.includes(state) ? completed_at : null,
  failure: state === "failed" ? failure : null
})

describe("the public form of an operation", () => {
  it.effect.prop(
    "is valid when it agrees with its state, and decodes to itself after encoding",
    [Parts, Schema.Literals(specifiedStates)],
    ([parts, state]) =>
      Effect.gen(function*() {
        const operation = consistent(parts, state)
        assert.isTrue(isOperation(operation))
        const wire = JSON.parse(JSON.stringify(yield* Schema.encodeEffect(Operation)(operation)))
        assert.deepStrictEqual(Object.keys(wire).toSorted(), publicMembers.toSorted())
        assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(Operation)(wire), operation)
      }),
    { arbitrary: { runs: 300 } }
  )

  it.effect.prop(
    "is valid for exactly one combination of terminal, uncertain, completed and failed in each state",
    [Parts],
    ([parts]) =>
      Effect.sync(() => {
        const values = [false, true]
        for (const state of specifiedStates) {
          const accepted = values.flatMap((terminal) =>
            values.flatMap((submission_uncertain) =>
              [null, parts.completed_at].flatMap((completed_at) =>
                [null, parts.failure].map((failure) => ({
                  ...consistent(parts, state),
                  terminal,
                  submission_uncertain,
                  completed_at,
                  failure
                }))
              )
            )
          ).filter(isOperation)
          assert.deepStrictEqual(accepted, [consistent(parts, state)])
        }
      }),
    { arbitrary: { runs: 20 } }
  )

  it.effect.prop("omits every member that is not public", [Parts], ([parts]) =>
    Effect.gen(function*() {
      const row = {
        ...consistent(parts, "indeterminate"),
        resource_owner: "owner",
        subject: "subject",
        client_id: "client",
        idempotency_key: "key",
        request_digest: "digest",
        payload: {},
        provider: "bank",
        evidence: {}
      }
      assert.sameMembers(Object.keys(yield* Schema.encodeEffect(Operation)(row)), publicMembers)
    }))

  it("starts at revision 1", () => {
    const isRevision = Schema.is(Operation.fields.revision)
    assert.isTrue(isRevision(1))
    for (const revision of [0, -1, 1.5, Number.NaN, "1", null]) assert.isFalse(isRevision(revision), String(revision))
  })

  it("is identified by a UUIDv7 in its canonical form", () => {
    for (const variant of ["8", "9", "a", "b"]) {
      assert.isTrue(isOperationId(`019aa4f0-5c00-7b1e-${variant}d2f-3a4b5c6d7e8f`), variant)
    }
    const refused = [
      "",
      "019aa4f0-5c00-4b1e-8d2f-3a4b5c6d7e8f",
      "019aa4f0-5c00-7b1e-7d2f-3a4b5c6d7e8f",
      "019aa4f0-5c00-7b1e-cd2f-3a4b5c6d7e8f",
      "019AA4F0-5C00-7B1E-8D2F-3A4B5C6D7E8F",
      "019aa4f05c007b1e8d2f3a4b5c6d7e8f",
      "{019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f}",
      "019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f\n",
      " 019aa4f0-5c00-7b1e-8d2f-3a4b5c6d7e8f",
      "00000000-0000-0000-0000-000000000000"
    ]
    for (const id of refused) assert.isFalse(isOperationId(id), id)
  })

  it("has the instant of its acceptance in its id", () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), (millis) => {
      const hex = millis.toString(16).padStart(12, "0")
      const id = OperationId.make(`${hex.slice(0, 8)}-${hex.slice(8)}-7b1e-8d2f-3a4b5c6d7e8f`)
      assert.strictEqual(acceptedAt({ id }).epochMilliseconds, millis)
    }))
  })

  it("has a type that is a lower-case name of at most 64 characters", () => {
    const isType = Schema.is(OperationType)
    for (const type of ["payment", "payment.refund", "a", "a_1.b", "a".repeat(64)]) assert.isTrue(isType(type), type)
    for (
      const type of ["", "Payment", "1payment", ".a", "_a", "pay ment", "pay-ment", "paymént", "a\n", "a".repeat(65)]
    ) {
      assert.isFalse(isType(type), type)
    }
  })

  it("has a failure with a stable code and a message, and nothing else", () => {
    const isFailure = Schema.is(OperationFailure)
    assert.isTrue(isFailure({ code: "card_declined", message: "x".repeat(1024) }))
    for (const code of ["", "Declined", "1x", "a.b", "a".repeat(65)]) {
      assert.isFalse(isFailure({ code, message: "x" }), code)
    }
    for (const message of ["", "x".repeat(1025)]) assert.isFalse(isFailure({ code: "declined", message }))
  })
})
