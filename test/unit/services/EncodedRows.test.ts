/**
 * The encoder of rows writes exactly what the schema of the contract encodes, and refuses exactly the rows that the schema
 * refuses. The tests hold the two together by property: rows that are valid, and broken in every member.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as fc from "fast-check"
import { type EncodedOperation, encodeOperation, MalformedOperation } from "../../../src/domain/EncodedOperation.ts"
import { isOperationId, Operation } from "../../../src/domain/Operation.ts"
import { columnAt, fromRow, type Instant, type OperationRow } from "../../../src/services/sql/OperationRow.ts"
import { encodeRow, encodeRows, type Values } from "../../../src/services/sql/reads/encodedRows.ts"
import { rounds } from "../../fixtures/Effort.ts"
import { specifiedStates } from "../../fixtures/Specification.ts"

type Column = keyof OperationRow
type Row = Readonly<Record<Column, unknown>>

const columns = Object.keys(columnAt) as ReadonlyArray<Column>

const valuesOf = (row: Row): Values => columns.map((name) => row[name])

/** The operation of a row, which may be broken. Hence the cast. `fromRow` throws for some broken rows. */
const operationOf = (row: Row): Operation => fromRow(row as OperationRow)

const encode = Schema.encodeSync(Operation)

const ifAny = <A>(make: () => A): A | null => {
  try {
    return make()
  } catch {
    return null
  }
}

/** What the schema encodes; null if the row breaks the contract. */
const bySchema = (row: Row): string | null => ifAny(() => JSON.stringify(encode(operationOf(row))))

const resultOf = <A>(effect: Effect.Effect<A, MalformedOperation>): A | MalformedOperation =>
  Effect.runSync(
    Effect.match(effect, { onFailure: (error) => error, onSuccess: (value): A | MalformedOperation => value })
  )

/** The facts of an encoded operation, whose members may be getters. */
const factsOf = ({ json, operation, revision, terminal, under_review, updated_at }: EncodedOperation) => ({
  json,
  terminal,
  revision,
  under_review,
  updated_at,
  operation
})

const idFrom = (hex: string, variant: string) =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7${hex.slice(12, 15)}-${variant}${hex.slice(15, 18)}-${hex.slice(18)}`
const hex = fc.string({ unit: fc.constantFrom(..."0123456789abcdef"), minLength: 30, maxLength: 30 })
const ids = fc.tuple(hex, fc.constantFrom("8", "9", "a", "b")).map(([hex, variant]) => idFrom(hex, variant))

/** As `Date`, or in milliseconds since the epoch: connections yield both. */
const instants: fc.Arbitrary<Instant> = fc.tuple(
  fc.oneof(
    fc.date({ min: new Date("2020-01-01"), max: new Date("2040-01-01"), noInvalidDate: true }),
    // Years before Christ, and after 9999.
    fc.date({ noInvalidDate: true }),
    fc.constantFrom(-8.64e15, 8.64e15, 0, -1).map((at) => new Date(at))
  ),
  fc.boolean()
).map(([date, isNumber]) => isNumber ? date.getTime() : date)

/** Text with every kind of character that JSON escapes, and with astral ones. */
const messages = fc.oneof(
  fc.string({ unit: "binary", minLength: 1, maxLength: 40 }).filter((text) =>
    text.isWellFormed() && !text.includes("\0")
  ),
  fc.string({ unit: fc.constantFrom("\"", "\\", "\n", "\u0001", "\u007f", "\u2028", "\u{1f4b6}", "é"), minLength: 1 }),
  fc.constantFrom("x".repeat(1024), "\u{1f4b6}".repeat(512))
)

/** A row that the contract permits. */
const validRows: fc.Arbitrary<Row> = fc.record({
  id: ids,
  type: fc.oneof(fc.stringMatching(/^[a-z][a-z0-9_.]{0,63}$/), fc.constant("payment")),
  state: fc.constantFrom(...specifiedStates),
  revision: fc.oneof(fc.integer({ min: 1 }), fc.constantFrom(1, 2 ** 53 - 1)),
  under_review: fc.boolean(),
  created_at: instants,
  updated_at: instants,
  at: instants,
  failure_code: fc.stringMatching(/^[a-z][a-z0-9_]{0,63}$/),
  failure_message: messages,
  half: fc.constantFrom("code", "message", "none")
}).map(({ at, half, ...row }) => ({
  ...row,
  completed_at: ["succeeded", "failed", "cancelled"].includes(row.state) ? at : null,
  // One half of a failure is none.
  failure_code: row.state === "failed" || half === "code" ? row.failure_code : null,
  failure_message: row.state === "failed" || half === "message" ? row.failure_message : null
}))

const common = [null, undefined, "", "x", 0, -1, 1, 1.5, Number.NaN, Infinity, true, false, 1n, [], {}]
const notInstants = [new Date(Number.NaN), new Date(8.64e15 + 1), "2026-01-31T12:00:00.000Z", 8.64e15 + 2, -Infinity]
const notNames = ["Payment", "1x", "_x", ".x", "a-b", "a b", "a\n", "\na", "a\"", "a\0", "é", "a\ud800", "a".repeat(65)]

/** Values that break a column, at least in some states. */
const breaking: Readonly<Record<Column, ReadonlyArray<unknown>>> = {
  id: [
    ...["8", "9", "a", "b", "7", "c"].map((variant) => idFrom("0".repeat(30), variant)),
    idFrom("0".repeat(30), "8").replace("-7", "-4"),
    idFrom("a".repeat(30), "8").toUpperCase(),
    `${idFrom("0".repeat(30), "8")}\n`,
    ` ${idFrom("0".repeat(30), "8")}`,
    `{${idFrom("0".repeat(30), "8")}}`
  ],
  type: [...notNames, "a.b", "a".repeat(64)],
  state: [...specifiedStates, "pending", "Accepted", "constructor", "__proto__", "toString"],
  revision: [0, 1.5, 2 ** 53, -(2 ** 53), 2 ** 53 - 1, "1", -0],
  under_review: ["yes", "true", "f"],
  created_at: notInstants,
  updated_at: notInstants,
  completed_at: [...notInstants, new Date(0)],
  failure_code: [...notNames, "a.b", "a".repeat(64), "declined"],
  failure_message: ["a\0b", "a\ud800", "\udc00a", "a".repeat(1025), "\u{1f4b6}".repeat(513), "Declined"]
}

/** A row with up to three columns broken. */
const rows: fc.Arbitrary<Row> = fc.tuple(
  validRows,
  fc.array(
    fc.constantFrom(...columns).chain((name) =>
      fc.constantFrom(...breaking[name], ...common).map((value) => [name, value] as const)
    ),
    { maxLength: 3 }
  )
).map(([row, changes]) => ({ ...row, ...Object.fromEntries(changes) }))

describe("The encoding of a row", () => {
  it("of a valid row is what the schema encodes, with the facts of the operation", () => {
    fc.assert(
      fc.property(validRows, (row) => {
        const json = bySchema(row)
        assert.isNotNull(json)
        assert.deepStrictEqual<unknown>(factsOf(Effect.runSync(encodeRow(valuesOf(row)))), {
          json,
          terminal: row.completed_at !== null,
          revision: row.revision,
          under_review: row.under_review,
          updated_at: Number(row.updated_at),
          operation: operationOf(row)
        })
      }),
      { numRuns: rounds(500, 20_000) }
    )
  })

  it("of any row is what the schema encodes, or both refuse: the error names the id alone, if that is well-formed", () => {
    const outcomes = new Set<boolean>()
    fc.assert(
      fc.property(rows, (row) => {
        const json = bySchema(row)
        const result = resultOf(encodeRow(valuesOf(row)))
        outcomes.add(json === null)
        if (result instanceof MalformedOperation) {
          assert.isNull(json)
          assert.deepStrictEqual({ ...result }, {
            _tag: "MalformedOperation",
            id: isOperationId(row.id) ? row.id : null
          })
        } else assert.strictEqual(result.json, json)
      }),
      { numRuns: rounds(3000, 100_000) }
    )
    assert.sameMembers([...outcomes], [true, false])
  })

  it.each(columns)("judges each value of the column %s as the schema does, in every state", (name) => {
    const [base] = fc.sample(validRows, { numRuns: 1, seed: 1 })
    for (const state of specifiedStates) {
      for (const completed_at of [null, new Date(1)]) {
        for (const failure of [null, "declined"]) {
          for (const value of [...breaking[name], ...common]) {
            const row = {
              ...base!,
              state,
              completed_at,
              failure_code: failure,
              failure_message: failure,
              [name]: value
            }
            const result = resultOf(encodeRow(valuesOf(row)))
            const json = result instanceof MalformedOperation ? null : result.json
            assert.strictEqual(json, bySchema(row), JSON.stringify({ ...row, [name]: String(value) }))
          }
        }
      }
    }
  })

  it("equals that of its operation, which memory and tests encode", () => {
    fc.assert(fc.property(rows, (row) => {
      const operation = ifAny(() => operationOf(row))
      if (operation === null) return
      const [byRow, byOperation] = [encodeRow(valuesOf(row)), encodeOperation(operation)].map((encoded) =>
        resultOf(Effect.map(encoded, factsOf))
      )
      assert.deepStrictEqual(byRow, byOperation)
    }))
  })
})

describe("The encoding of a page", () => {
  const pages = fc.array(fc.oneof({ weight: 20, arbitrary: validRows }, { weight: 1, arbitrary: rows }), {
    maxLength: 12
  })

  it("holds the operations in order, and names the first broken one", () => {
    fc.assert(
      fc.property(pages, (page) => {
        const encoded = page.map(bySchema)
        const result = resultOf(encodeRows(page.map(valuesOf)))
        const broken = page[encoded.indexOf(null)]
        if (result instanceof MalformedOperation) {
          assert.strictEqual(result.id, isOperationId(broken!.id) ? broken!.id : null)
          return
        }
        assert.isUndefined(broken)
        assert.strictEqual(result.json, `[${encoded.join(",")}]`)
        assert.strictEqual(result.count, page.length)
        assert.deepStrictEqual(result.operations, page.map(operationOf))
      }),
      { numRuns: rounds(300, 10_000) }
    )
  })
})
