/** What a client is told of a member that does not fit. */
import { assert, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { invalidMembers } from "../../../src/domain/InvalidMember.ts"
import { textLike } from "../../../src/domain/PayloadText.ts"

it.effect("A number in place of an amount is told the form of the text", () =>
  Effect.gen(function*() {
    const Transfer = Schema.Struct({
      amount: textLike(/^\d+\.\d\d$/u, "an amount such as \"12.50\""),
      memo: Schema.String
    })
    const decode = Schema.decodeUnknownEffect(Transfer, { errors: "all" })
    const told = (payload: unknown) =>
      Effect.map(Effect.flip(decode(payload)), (error) => invalidMembers(error).map(({ message }) => message))
    assert.deepStrictEqual(yield* told({ amount: 1.5, memo: 1 }), [
      "Expected an amount such as \"12.50\", as text",
      "Expected string"
    ])
    assert.deepStrictEqual(yield* told({ amount: "1.5", memo: "" }), ["Expected an amount such as \"12.50\""])
  }))
