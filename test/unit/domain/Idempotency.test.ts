/**
 * Equal requests have equal digests, and different requests have different ones. The tests check canonical JSON by
 * property and by the examples of RFC 8785.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import { Hex } from "effect/encoding"
import { createHash } from "node:crypto"
import { isDeepStrictEqual } from "node:util"
import { BindingConflict, canonicalJson, IdempotencyKey, requestDigest } from "../../../src/domain/Idempotency.ts"

const canonicalText = (value: Schema.Json) =>
  Effect.map(canonicalJson(value), (bytes) => new TextDecoder("utf-8", { fatal: true }).decode(bytes))

const digestOf = (payload: Schema.Json, type = "payment") => Effect.map(requestDigest({ type, payload }), Hex.encode)

const isWellFormed = (value: Schema.Json): boolean => !/\\ud[89a-f]/.test(JSON.stringify(value))

/** Every JSON value that has a canonical form: RFC 8785 excludes lone surrogates. */
const Json = Arbitrary.filter(Arbitrary.schema(Schema.Json), isWellFormed)

/** Another spelling of the same value: members in another order, numbers in another notation. */
const respell = (value: Schema.Json, choose: () => number): string => {
  if (typeof value === "number") {
    const spellings = [JSON.stringify(value), value.toExponential(), value.toExponential().replace("e", "E")]
    if (Number.isSafeInteger(value) && value !== 0) spellings.push(`${value}.0`, `${value}00e-2`)
    return spellings[choose() % spellings.length]!
  }
  if (Array.isArray(value)) return `[ ${value.map((item: Schema.Json) => respell(item, choose)).join(" , ")} ]`
  if (value === null || typeof value !== "object") return JSON.stringify(value)
  const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)} :${respell(member, choose)}`)
  for (let end = members.length - 1; end > 0; end--) {
    const other = choose() % (end + 1)
    ;[members[end], members[other]] = [members[other]!, members[end]!]
  }
  return `{${members.join(",\n")}}`
}

/** A deterministic sequence, so that a failure can be replayed. */
const sequence = (seed: number) => {
  let state = seed >>> 0
  return () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) >>> 8
}

/** Whether two values are the same JSON. This oracle shares no code with the source. JSON has no -0. */
const isSame = (a: Schema.Json, b: Schema.Json): boolean =>
  isDeepStrictEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)))

const Seed = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 32 - 1 }))

layer(NodeCrypto.layerDigest)("the digest of a request", (it) => {
  it.effect.prop(
    "is the same for the same JSON, in any order of members and any spelling of numbers",
    [Json, Seed],
    ([payload, seed]) =>
      Effect.gen(function*() {
        const again = JSON.parse(respell(payload, sequence(seed)))
        assert.strictEqual(yield* digestOf(again), yield* digestOf(payload))
      }),
    { arbitrary: { runs: 300 } }
  )

  it.effect.prop("differs for different JSON", [Json, Json], ([a, b]) =>
    Effect.gen(function*() {
      assert.strictEqual((yield* digestOf(a)) === (yield* digestOf(b)), isSame(a, b))
    }), { arbitrary: { runs: 500 } })

  it.effect("differs for values that look alike", () =>
    Effect.gen(function*() {
      const payloads: ReadonlyArray<Schema.Json> = [
        null,
        "null",
        0,
        "0",
        false,
        "",
        [],
        {},
        [null],
        [[]],
        [{}],
        { a: null },
        { a: 1 },
        { a: "1" },
        { a: [1] },
        { b: 1 },
        { a: 1, b: 2 },
        { a: 2, b: 1 },
        [1, 2],
        [2, 1],
        ["1,2"],
        1e21,
        1e-7,
        "é",
        "e\u0301",
        "\u0000",
        " "
      ]
      const digests = yield* Effect.forEach(payloads, (payload) => digestOf(payload))
      assert.strictEqual(new Set(digests).size, payloads.length)
    }))

  it.effect.prop(
    "covers the canonical JSON of type and payload, for any payload",
    [Json],
    ([payload]) =>
      Effect.gen(function*() {
        const both = yield* canonicalJson({ type: "payment", payload })
        assert.strictEqual(yield* digestOf(payload), createHash("sha256").update(both).digest("hex"))
      })
  )

  it.effect("is SHA-256 over the canonical JSON of type and payload", () =>
    Effect.gen(function*() {
      const text = `{"payload":{"amount":"10.00","to":["€"]},"type":"payment"}`
      const expected = createHash("sha256").update(text, "utf8").digest("hex")
      assert.strictEqual(yield* digestOf({ to: ["€"], amount: "10.00" }), expected)
    }))

  for (const [name, payload] of [["a value", ["\ud800"]], ["a member name", { "\udead": 1 }]] as const) {
    it.effect(`does not exist for a lone surrogate in ${name}`, () =>
      Effect.gen(function*() {
        assert.strictEqual((yield* Effect.flip(digestOf(payload)))._tag, "InvalidFinancialRequest")
      }))
  }
})

/** RFC 8785, appendix B: the bits of an IEEE 754 double and how it is written. */
const numbers: ReadonlyArray<readonly [bits: string, text: string | null]> = [
  ["0000000000000000", "0"],
  ["8000000000000000", "0"],
  ["0000000000000001", "5e-324"],
  ["8000000000000001", "-5e-324"],
  ["7fefffffffffffff", "1.7976931348623157e+308"],
  ["ffefffffffffffff", "-1.7976931348623157e+308"],
  ["4340000000000000", "9007199254740992"],
  ["c340000000000000", "-9007199254740992"],
  ["4430000000000000", "295147905179352830000"],
  ["7fffffffffffffff", null],
  ["7ff0000000000000", null],
  ["44b52d02c7e14af5", "9.999999999999997e+22"],
  ["44b52d02c7e14af6", "1e+23"],
  ["44b52d02c7e14af7", "1.0000000000000001e+23"],
  ["444b1ae4d6e2ef4e", "999999999999999700000"],
  ["444b1ae4d6e2ef4f", "999999999999999900000"],
  ["444b1ae4d6e2ef50", "1e+21"],
  ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
  ["3eb0c6f7a0b5ed8d", "0.000001"],
  ["41b3de4355555553", "333333333.3333332"],
  ["41b3de4355555554", "333333333.33333325"],
  ["41b3de4355555555", "333333333.3333333"],
  ["41b3de4355555556", "333333333.3333334"],
  ["41b3de4355555557", "333333333.33333343"],
  ["becbf647612f3696", "-0.0000033333333333333333"],
  ["43143ff3c1cb0959", "1424953923781206.2"]
]

describe("canonical JSON", () => {
  it.effect("matches the example of RFC 8785, section 3.2.4", () =>
    Effect.gen(function*() {
      const input = String.raw`{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
      }`
      const expected = `
        7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72
        75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62 65 72 73 22 3a
        5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31
        65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30 32 2c 31 65 2d 32 37
        5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30
        30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c 22 2f 22 7d`
      assert.strictEqual(Hex.encode(yield* canonicalJson(JSON.parse(input))), expected.replaceAll(/\s/g, ""))
    }))

  it.effect("sorts members by UTF-16 code units, as in RFC 8785, section 3.2.3", () =>
    Effect.gen(function*() {
      const text = yield* canonicalText({
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\ud83d\ude00": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis"
      })
      assert.deepStrictEqual([...text.matchAll(/:"([^"]+)"/g)].map(([, name]) => name), [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh"
      ])
    }))

  for (const [bits, text] of numbers) {
    it.effect(`writes the number ${bits} as in RFC 8785, appendix B: ${text ?? "not at all"}`, () =>
      Effect.gen(function*() {
        const value = Buffer.from(bits, "hex").readDoubleBE(0)
        if (text !== null) return assert.strictEqual(yield* canonicalText(value), text)
        assert.strictEqual((yield* Effect.flip(canonicalText(value)))._tag, "InvalidFinancialRequest")
      }))
  }

  it.effect.prop("is JSON of the same value, without white space", [Json], ([value]) =>
    Effect.gen(function*() {
      const text = yield* canonicalText(value)
      assert.isTrue(isSame(JSON.parse(text), value), text)
      assert.strictEqual(text.replaceAll(/"(?:[^"\\]|\\.)*"/g, "\"\"").search(/\s/), -1)
    }))
})

describe("an idempotency key", () => {
  it("has 1 to 255 visible ASCII characters", () => {
    const isKey = Schema.is(IdempotencyKey)
    for (const key of ["!", "~", "a-B_c.9", "x".repeat(255)]) assert.isTrue(isKey(key), key)
    for (const key of ["", " ", "a b", "a\n", "a\0", "\x7f", "é", "x".repeat(256)]) assert.isFalse(isKey(key), key)
  })

  it("that conflicts reveals nothing of the request that it was bound to before", () => {
    const conflict = new BindingConflict({ key: IdempotencyKey.make("key") })
    assert.deepStrictEqual({ ...conflict }, { _tag: "BindingConflict", key: IdempotencyKey.make("key") })
    assert.strictEqual(
      conflict.message,
      "the idempotency key was used before with another request, or through another provider connection"
    )
  })
})
