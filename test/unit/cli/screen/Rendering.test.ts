/**
 * What commands print for people fits the terminal, and no value from outside can drive it. The tests render any operation and any
 * figures, with hostile texts, on terminals of any width.
 */
import { assert, describe, it } from "@effect/vitest"
import { displayWidth } from "effect/cli/CliOutput"
import * as fc from "fast-check"
import { stripVTControlCharacters, styleText } from "node:util"
import { renderList } from "../../../../src/cli/operations/list.ts"
import { renderDetail } from "../../../../src/cli/operations/show.ts"
import { type Paint, plain, type Screen } from "../../../../src/cli/screen/Screen.ts"
import { renderStatus } from "../../../../src/cli/status/StatusCommand.ts"
import { isTerminal } from "../../../../src/domain/Operation.ts"
import { nothingToDo } from "../../../../src/domain/operators/recordTexts.ts"
import { maskTerms } from "../../../../src/domain/Terms.ts"
import { visible } from "../../../../src/domain/VisibleText.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { detail, figures, now, summary } from "../../../fixtures/ledger/OperatorViews.ts"

/** The escape codes that a terminal gets. */
const styled: Paint = (style, text) => styleText(style, text, { validateStream: false })

type Render = (screen: Screen) => string

/** What `list` and `show` and `status` print, of anything. */
const anyOutput: fc.Arbitrary<Render> = fc.oneof(
  fc.tuple(fc.array(summary, { minLength: 1, maxLength: 4 }), fc.boolean()).map(
    ([operations, wide]): Render => (screen) => renderList(operations, { now, screen, wide })
  ),
  detail.map((operation): Render => (screen) => renderDetail(operation, now, screen)),
  figures.map((figures): Render => (screen) => renderStatus({ embedded: false, migrated: true, figures }, now, screen))
)

/** Wide enough for the longest indentation of a fact, and for two columns of a table. */
const width = fc.integer({ min: 24, max: 300 })

describe("The text of a command", () => {
  it("tells of a reversal or a contradiction at the end of the history", () => {
    fc.assert(
      fc.property(detail, (operation) => {
        const [, history] = renderDetail(operation, now, { width: null, paint: plain }).split("\nHistory\n")
        const told = operation.operation.state === "succeeded"
          ? " reversed by the provider"
          : " contradicted by the provider"
        assert.strictEqual(history?.includes(told) ?? false, operation.reversal !== null)
      }),
      { numRuns: rounds(20, 300) }
    )
  })

  it("says of each action of an operator whether it was done or refused, or there was nothing to do", () => {
    const action = {
      at: now,
      operator: "anna",
      via: "command",
      action: "advance",
      reason: null,
      question: null
    } as const
    const actions = ["it may still be sent", "done", nothingToDo.cancelled].map((result) => ({ ...action, result }))
    fc.assert(
      fc.property(detail, (operation) => {
        const text = renderDetail({ ...operation, actions }, now, { width: null, paint: plain })
        const results = text.split("\n").slice(-3).map((line) => line.split(" advance by anna (command): ")[1])
        assert.deepStrictEqual(results, [
          "refused: it may still be sent",
          "done",
          "nothing to do: it was cancelled already"
        ])
      }),
      { numRuns: rounds(20, 300) }
    )
  })

  it("says in the history that a rescue may have moved the end of sending, and of no other transition", () => {
    fc.assert(
      fc.property(detail, fc.constantFrom("rescuer", "operator"), (operation, by) => {
        const entry = { revision: 3, from: "submitting", to: "indeterminate", at: now, evidence: { by } } as const
        const text = renderDetail({ ...operation, history: [entry] }, now, { width: null, paint: plain })
        assert.strictEqual(text.includes("may have moved send before"), by === "rescuer")
      }),
      { numRuns: rounds(20, 300) }
    )
  })

  it("tells until when an operation may be sent, unless it is settled", () => {
    fc.assert(
      fc.property(detail, (operation) => {
        const text = renderDetail(operation, now, { width: null, paint: plain })
        const isTold = operation.schedule.send_before !== null && !isTerminal(operation.operation.state)
        assert.strictEqual(/^ *send before /m.test(text), isTold)
      }),
      { numRuns: rounds(20, 300) }
    )
  })

  it("is never wider than its terminal, escapes control, format and bidirectional characters, and tells nothing by a style", () => {
    fc.assert(
      fc.property(anyOutput, fc.option(width, { nil: null }), (render, width) => {
        const text = render({ width, paint: plain })
        if (width !== null) { for (const line of text.split("\n")) assert.isAtMost(displayWidth(line), width, line) }
        assert.notMatch(text, /(?![ \n])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u)
        const words = (shown: string) => stripVTControlCharacters(shown).split("\n").map((line) => line.trimEnd())
        assert.deepStrictEqual(words(render({ width, paint: styled })), words(text))
      }),
      { numRuns: rounds(25, 300) }
    )
  })

  it("of a list has amount and payee behind the type, as they are masked, also without --wide", () => {
    fc.assert(
      fc.property(summary, fc.boolean(), (listed, wide) => {
        const terms = maskTerms({ amount: "12.50", currency: "EUR", payee: "DE89 3704 0044 0532 0130 00" })
        const shown = (operation: typeof listed) =>
          renderList([operation], { now, screen: { width: null, paint: plain }, wide }).split("\n")[1]!
        const { type } = listed.operation
        assert.include(shown({ ...listed, terms }), `  ${visible(type)} ${terms.amount} EUR to ${terms.payee}  `)
        assert.notInclude(shown({ ...listed, terms }), "12.50")
        assert.include(shown({ ...listed, terms: null }), `  ${visible(type)}  `)
      }),
      { numRuns: rounds(20, 200) }
    )
  })

  it("of a list says why an operation failed, and cuts no code of a failure on any terminal", () => {
    fc.assert(
      fc.property(summary, width, fc.boolean(), (listed, width, wide) => {
        const failure = { code: "insufficient_funds", message: "Too little." }
        const failed = { ...listed, operation: { ...listed.operation, failure } }
        const [, row] = renderList([failed], { now, screen: { width: null, paint: plain }, wide: false }).split("\n")
        assert.match(row!, /  insufficient_funds\s*$/)
        const narrow = renderList([failed], { now, screen: { width, paint: plain }, wide })
        assert.include(narrow.replaceAll(/\s+/g, ""), failure.code)
      }),
      { numRuns: rounds(20, 200) }
    )
  })

  it("of a list heads the last column by what it has: what comes next, or the codes of failures", () => {
    fc.assert(
      fc.property(summary, (listed) => {
        const of = (failure: typeof listed.operation.failure) => ({
          ...listed,
          operation: { ...listed.operation, failure }
        })
        const [open, failed] = [of(null), of({ code: "insufficient_funds", message: "Too little." })]
        const headOf = (...operations: ReadonlyArray<typeof listed>) =>
          renderList(operations, { now, screen: { width: null, paint: plain }, wide: false }).split("\n")[0]!.trimEnd()
        assert.match(headOf(open), / {2}next$/)
        assert.match(headOf(failed), / {2}failure$/)
        assert.match(headOf(open, failed), / {2}next or failure$/)
      }),
      { numRuns: rounds(20, 200) }
    )
  })

  it("says of a failed operation that it was never sent, if its code says so", () => {
    fc.assert(
      fc.property(detail, fc.constantFrom("provider_unreachable", "insufficient_funds"), (shown, code) => {
        const failed = { ...shown, operation: { ...shown.operation, failure: { code, message: "None." } } }
        const text = renderDetail(failed, now, { width: null, paint: plain })
        assert.strictEqual(/^ *sent +never sent$/m.test(text), code === "provider_unreachable")
      }),
      { numRuns: rounds(20, 200) }
    )
  })

  it("is cut nowhere if the output is no terminal", () => {
    fc.assert(
      fc.property(fc.array(summary, { minLength: 1, maxLength: 4 }), (operations) => {
        const rows = renderList(operations, { now, screen: { width: null, paint: plain }, wide: true }).split("\n")
          .slice(1)
        assert.lengthOf(rows, operations.length, "an operation is one line")
        for (const [at, { idempotency_key, operation, provider, reference, resource_owner }] of operations.entries()) {
          for (const value of [operation.id, provider, resource_owner, idempotency_key, reference ?? "-"]) {
            assert.include(rows[at], visible(value).trimEnd())
          }
        }
      }),
      { numRuns: rounds(20, 200) }
    )
  })
})
