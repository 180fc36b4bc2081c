/**
 * Declarations that differ only in the order of inferred unions become equal, and nothing else changes. The tests
 * shuffle unions by property.
 */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { sortUnions } from "../../../scripts/sortUnions.ts"

const name = fc.constantFrom("A", "B", "C", "never", "\"a | b\"", "string[]", "(() => void)")

/** Types, and the same types with the members of each union in another order. */
const types = fc.letrec<{ readonly type: readonly [string, string] }>((tie) => ({
  type: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    name.map((text) => [text, text] as const),
    tie("type").map(([one, other]) => [`Box<string, ${one}>`, `Box<string, ${other}>`] as const),
    tie("type").map(([one, other]) => [`{ m: ${one} }`, `{ m: ${other} }`] as const),
    fc.array(tie("type"), { minLength: 2, maxLength: 4 }).chain((members) =>
      fc.shuffledSubarray(members, { minLength: members.length }).map((shuffled) =>
        [
          `(${members.map(([one]) => one).join(" | ")})`,
          `(${shuffled.map(([, other]) => other).join(" | ")})`
        ] as const
      )
    )
  )
})).type

const declare = (type: string) =>
  `// First\ndeclare const it_base: ${type};\nexport {};\n//# sourceMappingURL=it.d.ts.map`

describe("Unions in declarations", () => {
  it("that differ only in their order become equal, keep their members, and stay stable", () => {
    fc.assert(fc.property(types, ([one, other]) => {
      const sorted = sortUnions(declare(one))
      assert.strictEqual(sortUnions(declare(other)), sorted)
      assert.strictEqual(sortUnions(sorted), sorted)
      assert.strictEqual([...sorted].sort().join(""), [...declare(one)].sort().join(""))
    }))
  })

  it("stay unchanged in type aliases and interfaces, and when they contain a comment", () => {
    for (
      const text of [
        "export type State = \"open\" | \"closed\";",
        "export interface Held {\n    state: \"open\" | \"closed\";\n}",
        "export declare const it: \"open\" /* at first */ | \"closed\";"
      ]
    ) {
      assert.strictEqual(sortUnions(text), text)
    }
  })
})
