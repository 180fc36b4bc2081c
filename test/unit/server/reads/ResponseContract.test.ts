/**
 * A response that breaks the contract is withheld. The tests give the gateway a store that returns invalid operations.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import type { Operation } from "../../../../src/domain/Operation.ts"
import { fixedId, fixedToken as token, operationWith, withServices } from "../../../fixtures/http/HttpFixed.ts"
import { assertProblemOf } from "../../../fixtures/http/HttpProblem.ts"
import { json } from "../../../fixtures/http/HttpWire.ts"
import { publicMembers } from "../../../fixtures/Specification.ts"

const get = `/v1/operations/${fixedId}`
const list = "/v1/operations"
const now = DateTime.makeUnsafe(Date.now())

/** Changes that make an operation invalid under the contract: `domain/Operation` and `dispatch/JsonEncoder` hold the schema and its encoding. */
const broken: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "an id in upper case": { id: fixedId.toUpperCase() },
  "a state that does not exist": { state: "pending" },
  "a final state that is not terminal": { state: "succeeded", completed_at: now },
  "an indeterminate operation that is certain": { state: "indeterminate" },
  "a failed operation without a failure": { state: "failed", terminal: true, completed_at: now },
  "revision 0": { revision: 0 },
  "a creation time that is text": { created_at: "2026-01-31T12:00:00Z" },
  "no creation time": { created_at: undefined },
  "no time of the last transition": { updated_at: undefined }
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
            assert.deepStrictEqual(Object.keys(operation), publicMembers)
          }
        }))
    }))
})
