/** Tables shrink to a terminal, and turn into blocks on one that is too narrow. Text breaks after its words. */
import { assert, describe, it } from "@effect/vitest"
import { displayWidth } from "effect/cli/CliOutput"
import * as fc from "fast-check"
import { plain } from "../../../../src/cli/screen/Screen.ts"
import { type Column, renderTable, truncate, wrap } from "../../../../src/cli/screen/Table.ts"
import { visible } from "../../../../src/domain/VisibleText.ts"
import { brokenText } from "../../../fixtures/mcp/HostileText.ts"

interface Payment {
  readonly id: string
  readonly owner: string
  readonly amount: string
}

const columns: ReadonlyArray<Column<Payment>> = [
  { title: "id", cell: ({ id }) => ({ text: id }) },
  { title: "owner", cell: ({ owner }) => ({ text: owner }), least: 4 },
  { title: "amount", cell: ({ amount }) => ({ text: amount }), align: "right" }
]

const payments: ReadonlyArray<Payment> = [
  { id: "one", owner: "a customer of the bank", amount: "7" },
  { id: "two", owner: "支払い拒否の顧客", amount: "1200" }
]

const render = (width: number | null) => renderTable(columns, payments, { width, paint: plain }).split("\n")

describe("A table", () => {
  it("has its full width where there is room", () => {
    const lines = [
      "id   owner                   amount",
      "one  a customer of the bank       7",
      "two  支払い拒否の顧客          1200"
    ]
    assert.deepStrictEqual(render(null), lines)
    assert.deepStrictEqual(render(35), lines)
  })

  it("shrinks the columns that may shrink, with an ellipsis in their cells, and no other", () => {
    assert.deepStrictEqual(render(20), ["id  owner     amount", "one a custom…      7", "two 支払い拒…   1200"])
  })

  it("becomes a block for each row below the least widths of its columns, in which nothing is cut", () => {
    assert.deepStrictEqual(render(12), [
      "id     one",
      "owner  a",
      "       custo",
      "       mer",
      "       of",
      "       the",
      "       bank",
      "amount 7",
      "",
      "id     two",
      "owner  支払",
      "       い拒",
      "       否の",
      "       顧客",
      "amount 1200"
    ])
  })
})

describe("A text", () => {
  const text = brokenText.map(visible)
  const width = fc.integer({ min: 2, max: 80 })

  it("that is cut ends with an ellipsis, and keeps its beginning", () => {
    fc.assert(fc.property(text, width, (text, width) => {
      const cut = truncate(text, width)
      assert.isAtMost(displayWidth(cut), width)
      if (displayWidth(text) <= width) assert.strictEqual(cut, text)
      else {
        assert.strictEqual(cut.at(-1), "…")
        assert.isTrue(text.startsWith(cut.slice(0, -1)))
      }
    }))
  })

  it("that is wrapped keeps every character but the spaces at its breaks", () => {
    fc.assert(fc.property(text, width, (text, width) => {
      const lines = wrap(text, width)
      for (const line of lines) assert.isAtMost(displayWidth(line), width)
      assert.strictEqual(lines.join("").replaceAll(" ", ""), text.replaceAll(" ", ""))
    }))
  })

  it("breaks between words where there is a space", () => {
    assert.deepStrictEqual(wrap("hello world", 5), ["hello", "world"])
    assert.deepStrictEqual(wrap("the provider confirmed it", 12), ["the provider", "confirmed it"])
    assert.deepStrictEqual(wrap("one reference-without-a-space", 10), ["one", "reference-", "without-a-", "space"])
  })
})
