/**
 * A payload that is nested too deep is refused, however deep it is, and the refusal names the member. The tests try up to a million
 * levels. `unit/server/gate/WideJson` holds the same limit of bodies.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, type Schema } from "effect"
import * as fc from "fast-check"
import { findTooDeep, maxPayloadLevels } from "../../../src/domain/Idempotency.ts"
import { accept, InMemoryLedger, issue, newKey } from "../../fixtures/ledger/Ledger.ts"

const arrays = (levels: number): string => "[".repeat(levels) + "]".repeat(levels)
const objects = (levels: number): string => "{\"a\":".repeat(levels) + "1" + "}".repeat(levels)
const parse = (text: string) => JSON.parse(text) as Schema.Json

const deepest = maxPayloadLevels

describe("A member that is nested too deep", () => {
  it("is found from the 65th level on, and named by its path", () => {
    assert.strictEqual(deepest, 64)
    assert.isNull(findTooDeep(parse(arrays(64))))
    assert.deepStrictEqual(findTooDeep(parse(arrays(65))), Array.from({ length: 64 }, () => "0"))
    assert.isNull(findTooDeep(parse(objects(64))))
    assert.deepStrictEqual(findTooDeep(parse(objects(65))), Array.from({ length: 64 }, () => "a"))
    const within = `{"shallow":[1,[2]],"list":[{},${arrays(62)},[${arrays(62)}]],"deep":${arrays(64)}}`
    assert.deepStrictEqual(findTooDeep(parse(within))?.slice(0, 4), ["list", "2", "0", "0"])
  })

  it("is found for any number of levels, and never in a wide value", () => {
    for (const levels of [5000, 100_000, 1_000_000]) {
      for (const text of [arrays(levels), objects(levels)]) assert.lengthOf(findTooDeep(parse(text))!, 64)
    }
    assert.isNull(findTooDeep(Array.from({ length: 100_000 }, () => [{}, []])))
    for (const scalar of [null, 1, "text", true]) assert.isNull(findTooDeep(scalar))
  })

  it("is found exactly where a recursive check finds it", () => {
    const levelsOf = (value: unknown): number =>
      typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(levelsOf)) : 0
    fc.assert(fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 56, max: 66 }), (value, above) => {
      const nested = Array.from({ length: above }).reduce((inner) => ({ a: inner }), value)
      const path = findTooDeep(nested)
      assert.strictEqual(path !== null, levelsOf(nested) > deepest)
      if (path !== null) {
        const member = path.reduce<unknown>((container, key) => (container as Record<string, unknown>)[key], nested)
        assert.isTrue(typeof member === "object" && member !== null)
        assert.lengthOf(path, deepest)
      }
    }))
  })
})

layer(InMemoryLedger, { excludeTestServices: true })("A payload", (it) => {
  it.effect("of 64 levels is accepted, and a deeper one is refused with the path of the member", () =>
    Effect.gen(function*() {
      const { identity } = yield* issue()
      assert.isTrue((yield* accept(identity, { payload: parse(objects(64)) })).created)
      for (const levels of [65, 5000, 100_000]) {
        const key = newKey()
        const error = yield* Effect.flip(accept(identity, { key, payload: parse(objects(levels)) }))
        assert.strictEqual(error._tag, "InvalidFinancialRequest")
        assert.deepInclude({ ...error }, {
          fields: [{
            path: Array.from({ length: 64 }, () => "a"),
            message: "Expected at most 64 levels of arrays and objects"
          }]
        })
        assert.strictEqual(error.message, "the payload is nested more than 64 levels deep")
        assert.isTrue((yield* accept(identity, { key })).created, "the key is not bound")
      }
    }))
})
