/** The JSON of `operations list`, `operations show` and `status` has the form of its schema, and loses nothing. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { operatorForm, toJson } from "../../../../src/cli/Output.ts"
import { statusForm } from "../../../../src/cli/status/StatusCommand.ts"
import { Figures } from "../../../../src/domain/operators/FiguresForm.ts"
import { OperatorDetail, OperatorSummary } from "../../../../src/domain/operators/OperatorView.ts"
import { detail, figures, summary } from "../../../fixtures/ledger/OperatorViews.ts"

/** Prints and parses a document, decodes it, and encodes the result. */
const throughText = <A, I>(schema: Schema.Codec<A, I>, printed: unknown): unknown =>
  Schema.encodeSync(schema)(Schema.decodeUnknownSync(schema)(JSON.parse(JSON.stringify(printed))))

describe("The JSON for operators", () => {
  it("round-trips through its schema", () => {
    const encodeDetail = Schema.encodeSync(OperatorDetail)
    fc.assert(fc.property(summary, detail, figures, (summary, detail, figures) => {
      const listed = operatorForm(summary)
      assert.deepStrictEqual(throughText(OperatorSummary, listed), listed)
      const shown = encodeDetail(detail)
      assert.deepStrictEqual(throughText(OperatorDetail, shown), shown)
      const status = statusForm({ embedded: true, migrated: true, figures })
      assert.deepStrictEqual(throughText(Figures, status.figures), status.figures)
    }))
  })

  it("shows a terminal no character that it obeys or that a person does not see, and keeps each", () => {
    const hostile = "\x9B31m\x7F\u202E\u2028\u{E0041}\x1B]0;\uD800 é\u{1F600} "
    assert.match(toJson({ hostile }), /^[\x20-\x7Eé\u{1F600}]*$/u)
    fc.assert(fc.property(fc.jsonValue(), fc.string({ unit: "binary" }), (value, text) => {
      assert.deepStrictEqual(
        JSON.parse(toJson([value, text, hostile])),
        JSON.parse(JSON.stringify([value, text, hostile]))
      )
      assert.notMatch(toJson([text]), /(?! )[\p{C}\p{Z}]/u)
    }))
  })
})
