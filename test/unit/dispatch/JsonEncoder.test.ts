/**
 * The compiled encoder writes exactly what `JSON.stringify` writes of what the schema encodes, and fails exactly where the schema fails.
 * The property holds for generated schemas, with values that fit and values that do not.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Exit, Schema, SchemaGetter } from "effect"
import * as fc from "fast-check"
import { exampleOperation, OperationChanges, OperationList } from "../../../src/api/OperationsApi.ts"
import { makeJsonEncoder } from "../../../src/dispatch/JsonEncoder.ts"
import { Timestamp } from "../../../src/domain/Timestamp.ts"
import { rounds } from "../../fixtures/Effort.ts"

/** A schema, and values most of which it takes. */
interface Case {
  readonly schema: Schema.Codec<unknown, unknown>
  readonly values: fc.Arbitrary<unknown>
}

const of = (schema: Schema.Top, values: fc.Arbitrary<unknown>): Case => ({ schema: schema as Case["schema"], values })

const dates = fc.date({ noInvalidDate: true }).map((date) => DateTime.fromDateUnsafe(date))

const texts = fc.oneof(
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.string({
    unit: fc.constantFrom("a", "\"", "\\", "\n", "\0", "\u007f", "\u2028", "\ud800", "é", "\u{1f4b6}"),
    maxLength: 8
  }),
  fc.constantFrom("", "a", "payment")
)

const numbers = fc.oneof(fc.double(), fc.integer(), fc.constantFrom(-0, 0, 1, 2 ** 53, 1e21, Number.NaN, Infinity))

const junk = fc.oneof(
  texts,
  numbers,
  dates,
  fc.constantFrom(
    null,
    undefined,
    true,
    false,
    1n,
    Symbol.iterator,
    [],
    {},
    new Date(0),
    () => 1,
    Object.create({ a: 1 })
  ),
  fc.dictionary(texts, texts)
)

class Named extends Schema.Class<Named>("Named")({ name: Schema.String }) {}

const leaves: ReadonlyArray<Case> = [
  of(Schema.String, texts),
  of(Schema.String.check(Schema.isPattern(/^[a-z]*$/), Schema.isMaxLength(4)), texts),
  of(Schema.String.check(Schema.isMinLength(1)).pipe(Schema.brand("Branded")), texts),
  of(Schema.String.check(Schema.makeFilter((text: string) => text !== "a" || "no a")), texts),
  of(Schema.Number, numbers),
  of(Schema.Finite, numbers),
  of(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 })), fc.oneof(fc.integer({ min: 0, max: 9 }), numbers)),
  of(Schema.Boolean, fc.boolean()),
  of(Schema.Boolean.check(Schema.makeFilter((value: boolean) => value)), fc.boolean()),
  of(Schema.Null, fc.constant(null)),
  of(Schema.Undefined, fc.constant(undefined)),
  of(Schema.Literal("a\"b"), fc.constantFrom("a\"b", "a")),
  of(Schema.Literal(-0), numbers),
  of(Schema.Literals(["accepted", "failed", 1, true]), fc.constantFrom("accepted", "failed", 1, true, "other")),
  of(Schema.Literals(["a", "b"]).check(Schema.makeFilter((text: string) => text === "a")), fc.constantFrom("a", "b")),
  of(Timestamp, dates),
  of(Schema.DateTimeUtcFromString, dates),
  of(Schema.NumberFromString, numbers),
  of(Schema.Trim, texts),
  of(
    Schema.String.pipe(Schema.encodeTo(Schema.Literals(["x", "y"]), {
      decode: SchemaGetter.transform((text) => text),
      encode: SchemaGetter.transform((text: string) => text.length > 3 ? "x" as const : "z" as never)
    })),
    texts
  ),
  // Left to the interpreter.
  of(Schema.Unknown, fc.jsonValue()),
  of(Schema.Record(Schema.String, Schema.Number), fc.dictionary(texts, numbers)),
  of(Schema.Tuple([Schema.String, Schema.Number]), fc.tuple(texts, numbers)),
  of(Named, texts.map((name) => new Named({ name }))),
  of(Schema.DateTimeUtc, dates)
]

/** `NaN` among them shows that members keep the order of `JSON.stringify`. */
const names = fc.constantFrom(
  "a",
  "b",
  "state",
  "10",
  "2",
  "q\"uote",
  "é",
  "toString",
  "constructor",
  "NaN",
  "__proto__"
)

const mostly = (values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 20, arbitrary: values }, { weight: 1, arbitrary: junk })

const struct = (members: ReadonlyArray<readonly [string, Case, "required" | "key" | "optional"]>): Case => {
  const fields = Object.fromEntries(members.map(([name, { schema }, kind]) => [
    name,
    kind === "required" ? schema : kind === "key" ? Schema.optionalKey(schema) : Schema.optional(schema)
  ]))
  const model = Object.fromEntries(members.map(([name, { values }]) => [name, mostly(values)]))
  const required = members.filter(([, , kind]) => kind === "required").map(([name]) => name)
  const values = fc.oneof(
    { weight: 20, arbitrary: fc.record(model, { requiredKeys: required }) },
    { weight: 1, arbitrary: fc.record({ ...model, undeclared: junk }, { requiredKeys: [] }) }
  )
  return of(Schema.Struct(fields), values)
}

const { schemas } = fc.letrec<{ schemas: Case }>((tie) => ({
  schemas: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constantFrom(...leaves),
    tie("schemas").map(({ schema, values }) => of(Schema.NullOr(schema), fc.option(values))),
    tie("schemas").map(({ schema, values }) => of(Schema.UndefinedOr(schema), fc.option(values, { nil: undefined }))),
    tie("schemas").map(({ schema, values }) => of(Schema.Array(schema), fc.array(mostly(values), { maxLength: 4 }))),
    tie("schemas").map(({ schema, values }) =>
      of(Schema.Array(schema).check(Schema.isMaxLength(2)), fc.array(values, { maxLength: 3 }))
    ),
    tie("schemas").map(({ schema, values }) => of(Schema.suspend(() => schema), values)),
    fc.tuple(tie("schemas"), tie("schemas")).map(([a, b]) =>
      of(Schema.Union([a.schema, b.schema]), fc.oneof(a.values, b.values))
    ),
    fc.tuple(tie("schemas"), tie("schemas")).map(([a, b]) =>
      of(Schema.Union([a.schema, b.schema], { mode: "oneOf" }), fc.oneof(a.values, b.values))
    ),
    fc.uniqueArray(fc.tuple(names, tie("schemas"), fc.constantFrom("required", "required", "key", "optional")), {
      maxLength: 5,
      selector: ([name]) => name
    }).map(struct),
    tie("schemas").map((member) => {
      const { schema, values } = struct([["a", member, "required"]])
      const isEven = (value: unknown) =>
        JSON.stringify(value ?? 0, (_, member: unknown) => String(member)).length % 2 === 0
      return of(schema.check(Schema.makeFilter(isEven)), values)
    })
  )
}))

const cases = schemas.chain(({ schema, values }) => fc.tuple(fc.constant(schema), mostly(values)))

/** What the schema encodes, as JSON. Null: it refuses the value, or JSON cannot hold it. Undefined: the value has no JSON. */
const bySchema = (schema: Case["schema"], value: unknown): string | null | undefined => {
  const exit = Effect.runSyncExit(Effect.map(Schema.encodeUnknownEffect(schema)(value), (it) => JSON.stringify(it)))
  return Exit.isSuccess(exit) ? exit.value : null
}

const byEncoder = (schema: Case["schema"], value: unknown): string | null => {
  const exit = Effect.runSyncExit(makeJsonEncoder(schema).encode(value))
  return Exit.isSuccess(exit) ? exit.value : null
}

describe("The compiled encoder", () => {
  it("writes what the schema encodes, and refuses what the schema refuses", () => {
    const outcomes = { written: 0, interpreted: 0, refused: 0 }
    fc.assert(
      fc.property(cases, ([schema, value]) => {
        const expected = bySchema(schema, value)
        const written = makeJsonEncoder(schema).write(value)
        if (written !== null) assert.strictEqual(written, expected)
        assert.strictEqual(byEncoder(schema, value), expected)
        outcomes[written !== null ? "written" : expected === null ? "refused" : "interpreted"]++
      }),
      { numRuns: rounds(1000, 100_000) }
    )
    for (const count of Object.values(outcomes)) assert.isAbove(count, 20)
  })

  it.effect("leaves a value to the schema that a member of a union cannot decide at once", () =>
    Effect.gen(function*() {
      const Later = Schema.declareConstructor<string>()([], () => (value) => Effect.as(Effect.yieldNow, String(value)))
      const Marked = Later.pipe(Schema.encodeTo(Schema.String, {
        decode: SchemaGetter.transform((text: string) => text),
        encode: SchemaGetter.transform((text: string) => `later ${text}`)
      }))
      const { encode, write } = makeJsonEncoder(Schema.Union([Marked, Schema.String]))
      assert.isNull(write("a"))
      assert.strictEqual(yield* encode("a"), "\"later a\"")
    }))

  it.effect("leaves all values to the schema if the process may not generate code", () =>
    Effect.gen(function*() {
      const generate = globalThis.Function
      globalThis.Function = function() {
        throw new EvalError("Code generation from strings disallowed for this context")
      } as never
      const { encode, write } = makeJsonEncoder(Schema.Struct({ at: Timestamp }))
      globalThis.Function = generate
      const value = { at: DateTime.makeUnsafe(0) }
      assert.isNull(write(value))
      assert.strictEqual(yield* encode(value), "{\"at\":\"1970-01-01T00:00:00.000Z\"}")
    }))

  it("compiles the successes of the operations endpoints", () => {
    const page = { operations: [exampleOperation], next_page_token: null }
    assert.isNotNull(makeJsonEncoder(OperationList).write(page))
    assert.isNotNull(makeJsonEncoder(OperationChanges).write({ ...page, next_change_token: "x", has_more: false }))
  })
})
