/**
 * The JSON of `operations list`, `operations show` and `status` has the form of its schema, and loses nothing.
 */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as fc from "fast-check"
import { operatorForm } from "../../../src/cli/Output.ts"
import { statusForm } from "../../../src/cli/status/statusForm.ts"
import { Figures } from "../../../src/domain/FiguresForm.ts"
import { OperatorDetail, OperatorSummary } from "../../../src/domain/OperatorView.ts"
import { detail, figures, summary } from "../../fixtures/OperatorViews.ts"

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
})
