/**
 * A stored operation that breaks the contract is never sent: the store or the encoder refuses it. One that meets the contract is sent as it
 * is stored. The properties hold the two together, for rows of each state and for rows that are broken in a column.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import * as fc from "fast-check"
import { makeJsonEncoder } from "../../../../src/dispatch/JsonEncoder.ts"
import { Operation } from "../../../../src/domain/Operation.ts"
import { columnAt, fromValues, type OperationRow } from "../../../../src/services/sql/OperationRow.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

type Row = Readonly<Record<keyof OperationRow, unknown>>

const columns = Object.keys(columnAt) as ReadonlyArray<keyof OperationRow>
const final: ReadonlyArray<unknown> = ["succeeded", "failed", "cancelled"]
const { write } = makeJsonEncoder(Operation)

/** What a response has of a row. Null: nothing. */
const sent = (row: Row): unknown => {
  const exit = Effect.runSyncExit(fromValues([columns.map((name) => row[name])]))
  const text = Exit.isSuccess(exit) ? write(exit.value[0]) : null
  return text === null ? null : JSON.parse(text)
}

const id = (hex: string) =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(12, 15)}-8${hex.slice(15, 18)}-${hex.slice(18)}`

/** As `Date`, or in milliseconds since the epoch: connections yield both. */
const instants = fc.oneof(
  fc.date({ noInvalidDate: true }),
  fc.date({ noInvalidDate: true }).map((date) => date.getTime()),
  fc.constantFrom(-8.64e15, 8.64e15, 0, -1)
)

const rows: fc.Arbitrary<Row> = fc.record({
  id: fc.string({ unit: fc.constantFrom(..."0123456789abcdef"), minLength: 30, maxLength: 30 }).map(id),
  type: fc.stringMatching(/^[a-z][a-z0-9_.]{0,63}$/),
  state: fc.constantFrom(...specifiedStates),
  revision: fc.integer({ min: 1 }),
  under_review: fc.boolean(),
  created_at: instants,
  updated_at: instants,
  completed_at: instants,
  failure_code: fc.stringMatching(/^[a-z][a-z0-9_]{0,63}$/),
  failure_message: fc.string({ unit: "binary", minLength: 1, maxLength: 40 }).filter((text) =>
    text.isWellFormed() && !text.includes("\0")
  )
}).map((row) => ({
  ...row,
  completed_at: final.includes(row.state) ? row.completed_at : null,
  failure_code: row.state === "failed" ? row.failure_code : null,
  failure_message: row.state === "failed" ? row.failure_message : null
}))

const notNames = ["Payment", "1x", "a-b", "a\n", "\na", "a\"", "a\0", "é", "a\ud800", "a".repeat(65), ""]
const notInstants = [
  new Date(Number.NaN),
  new Date(8.64e15 + 1),
  "2026-01-31",
  8.64e15 + 2,
  -Infinity,
  Number.NaN,
  undefined,
  1n
]
const common = [undefined, 1.5, 1n, [], {}, Symbol.iterator]

/** Values that no column of a failed operation may have. */
const broken: Readonly<Record<keyof OperationRow, ReadonlyArray<unknown>>> = {
  id: [
    ...common,
    null,
    id("a".repeat(30)).toUpperCase(),
    id("0".repeat(30)).replace("-7", "-4"),
    `${id("0".repeat(30))}\n`
  ],
  type: [...common, null, ...notNames],
  state: [
    ...common,
    null,
    ...specifiedStates.filter((state) => state !== "failed"),
    "pending",
    "constructor",
    "__proto__"
  ],
  revision: [...common, null, 0, -1, 2 ** 53, "1", Number.NaN],
  under_review: [...common, null, "yes", 0],
  created_at: [null, ...notInstants],
  updated_at: [null, ...notInstants],
  completed_at: [null, ...notInstants],
  failure_code: [...common, null, ...notNames, "a.b"],
  failure_message: [...common, null, "", "a\0b", "a\ud800", "a".repeat(1025), "\u{1f4b6}".repeat(513)]
}

const textOf = (instant: unknown) => new Date(instant as Date | number).toISOString()

describe("The operation of a row", () => {
  it("is sent as it is stored", () => {
    fc.assert(
      fc.property(rows, (row) => {
        const { completed_at, created_at, failure_code, failure_message, updated_at, ...plain } = row
        assert.deepStrictEqual(sent(row), {
          ...plain,
          terminal: final.includes(row.state),
          submission_uncertain: row.state === "submitting" || row.state === "indeterminate",
          created_at: textOf(created_at),
          updated_at: textOf(updated_at),
          completed_at: completed_at === null ? null : textOf(completed_at),
          failure: failure_code === null ? null : { code: failure_code, message: failure_message }
        })
      }),
      { numRuns: rounds(300, 20_000) }
    )
  })

  it.each(columns)("is never sent if its %s is broken", (name) => {
    fc.assert(
      fc.property(rows.filter(({ state }) => state === "failed"), fc.constantFrom(...broken[name]), (row, value) => {
        assert.isNull(sent({ ...row, [name]: value }))
      })
    )
  })
})
