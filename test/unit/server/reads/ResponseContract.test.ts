/**
 * A response that breaks the contract is withheld. The tests give the gateway a store that returns invalid operations.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import type { Operation } from "../../../../src/domain/Operation.ts"
import { fixedId, fixedToken as token, operationWith, withServices } from "../../../fixtures/http/HttpFixed.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"
import { json } from "../../../fixtures/http/HttpWire.ts"

const get = `/v1/operations/${fixedId}`
const list = "/v1/operations"
const now = DateTime.makeUnsafe(Date.now())
const failure = { code: "card_declined", message: "The card was declined." }

/** Changes that make an operation invalid under the contract. */
const broken: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "an id that is not a UUIDv7": { id: "019aa4f0-5c00-4b1e-8d2f-3a4b5c6d7e8f" },
  "an id in upper case": { id: fixedId.toUpperCase() },
  "a number for an id": { id: 7 },
  "a type in upper case": { type: "Payment" },
  "an overlong type": { type: "a".repeat(65) },
  "a state that does not exist": { state: "pending" },
  "no state": { state: undefined },
  "a final state that is not terminal": { state: "succeeded", completed_at: now },
  "a terminal state that is not final": { terminal: true },
  "an accepted operation that is uncertain": { submission_uncertain: true },
  "an indeterminate operation that is certain": { state: "indeterminate" },
  "a final state without a completion": { state: "cancelled", terminal: true },
  "a completion without a final state": { completed_at: now },
  "a failed operation without a failure": { state: "failed", terminal: true, completed_at: now },
  "a failure of an operation that did not fail": { failure },
  "a failure code in upper case": {
    state: "failed",
    terminal: true,
    completed_at: now,
    failure: { ...failure, code: "Card" }
  },
  "a failure without words": {
    state: "failed",
    terminal: true,
    completed_at: now,
    failure: { ...failure, message: "" }
  },
  "a failure with too many": {
    state: "failed",
    terminal: true,
    completed_at: now,
    failure: { ...failure, message: "a".repeat(1025) }
  },
  "revision 0": { revision: 0 },
  "a revision that is not a whole number": { revision: 1.5 },
  "a revision that is text": { revision: "1" },
  "a creation time that is text": { created_at: "2026-01-31T12:00:00Z" },
  "an update time that is text": { updated_at: "2026-01-31T12:00:00Z" },
  "no creation time": { created_at: undefined },
  "a review that is text": { under_review: "yes" }
}

/** An invalid operation. The cast is needed because the test is about a store that returns such a value. */
const breaking = (changes: Readonly<Record<string, unknown>>): Operation =>
  ({ ...operationWith(), ...changes }) as unknown as Operation

describe("A response that breaks the contract", () => {
  it.live.each(Object.keys(broken))(
    "is withheld: 500 response_contract_failed, logged with the request id: %s",
    (name) =>
      Effect.suspend(() => {
        const operation = breaking(broken[name]!)
        return withServices({
          find: () => Effect.succeed(operation),
          list: () => Effect.succeed({ operations: [operationWith(), operation], next: null })
        }, ({ send }, { causesOf }) =>
          Effect.gen(function*() {
            for (const target of [get, list]) {
              const id = `broken-${target.length}`
              const answer = yield* send(target, { token, headers: { "x-request-id": id } })
              const problem = assertProblemOf(answer, "response_contract_failed", name)
              assert.notInclude(JSON.stringify(problem), fixedId.toUpperCase())
              assert.notProperty(answer.headers, "etag")
              assert.deepStrictEqual(causesOf(id).map(({ level, message }) => [level, message]), [
                ["ERROR", "Response withheld: it breaks the contract"]
              ])
            }
          }))
      })
  )

  it.live("is withheld when a page is larger than the contract allows", () =>
    withServices({
      list: () => Effect.succeed({ operations: Array.from({ length: 101 }, () => operationWith()), next: null })
    }, ({ send }) =>
      Effect.gen(function*() {
        assertProblemOf(yield* send(list, { token }), "response_contract_failed")
      })))

  it.live("does not include members that a store adds: they are left out", () =>
    Effect.suspend(() => {
      const enriched = breaking({ resource_owner: "owner-1", payload: { amount: 1 }, evidence: null, client_id: "c" })
      return withServices({
        find: () => Effect.succeed(enriched),
        list: () => Effect.succeed({ operations: [enriched], next: null })
      }, ({ send }) =>
        Effect.gen(function*() {
          const one = json(yield* send(get, { token })) as Record<string, unknown>
          const many = json(yield* send(list, { token })) as { operations: Array<Record<string, unknown>> }
          for (const operation of [one, many.operations[0]!]) {
            assert.deepStrictEqual(Object.keys(operation), [
              "id",
              "type",
              "state",
              "terminal",
              "submission_uncertain",
              "under_review",
              "revision",
              "created_at",
              "updated_at",
              "completed_at",
              "failure"
            ])
          }
        }))
    }))
})
