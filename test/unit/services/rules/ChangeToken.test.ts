/** A change token says what its feed wrote into it, to its reader alone, and fits into the target of a request. */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Result, Schema } from "effect"
import * as fc from "fast-check"
import { ChangeToken, maxChangeToken } from "../../../../src/domain/ChangeFeed.ts"
import { ClientId, PairwiseSubject } from "../../../../src/domain/Grant.ts"
import type { OperationId } from "../../../../src/domain/Operation.ts"
import {
  afterAllIds,
  beforeAllIds,
  type ChangePlace,
  type ChangeTokenContent,
  grantReader,
  ledgerReader,
  maxPending,
  openChangeToken,
  sealChangeToken
} from "../../../../src/services/rules/changeToken.ts"
import { TokenCipher } from "../../../../src/services/TokenCipher.ts"
import { rounds } from "../../../fixtures/Effort.ts"
import { forAll } from "../../../fixtures/forAll.ts"

const id = fc.oneof(
  fc.uuid().map((id) => id as OperationId),
  fc.constantFrom(beforeAllIds, afterAllIds)
)

const position = fc.oneof(fc.nat(), fc.maxSafeNat())

const content: fc.Arbitrary<ChangeTokenContent> = fc.record({
  history: fc.uint8Array({ minLength: 9, maxLength: 9 }).map((bytes) => Buffer.from(bytes).toString("base64")),
  owner: fc.constantFrom("", "0123456789abcdef0123456789abcdef"),
  places: fc.uniqueArray(position, { minLength: 1, maxLength: 20 }),
  ids: fc.array(id, { minLength: 20, maxLength: 20 }),
  isWhole: fc.boolean()
}).map(({ history, ids, isWhole, owner, places }) => {
  const ascending = places.toSorted((a, b) => a - b).map((position, n): ChangePlace => ({ position, id: ids[n]! }))
  return { history, owner, position: { high: ascending.at(-1)!, pending: ascending.slice(0, -1), isWhole } }
})

const grant = { client_id: ClientId.make("client"), subject: PairwiseSubject.make("subject") }
const query = { states: ["succeeded", "failed"], type: "payment" } as const
const readers = [
  ledgerReader,
  grantReader(grant, query),
  grantReader(grant, { ...query, type: null }),
  grantReader(grant, { ...query, states: ["failed"] }),
  grantReader({ ...grant, subject: PairwiseSubject.make("other") }, query),
  grantReader({ ...grant, client_id: ClientId.make("other") }, query)
]

const isRefused = Effect.fnUntraced(function*(token: string, reader = ledgerReader) {
  return Result.isFailure(yield* Effect.result(openChangeToken(yield* TokenCipher, token as ChangeToken, reader)))
})

layer(Layer.provide(TokenCipher.layerMemory, NodeCrypto.layer))("A change token", (it) => {
  const property = <A>(arbitrary: fc.Arbitrary<A>, check: (value: A) => Effect.Effect<void, unknown, TokenCipher>) =>
    forAll(arbitrary, rounds(200, 2000), check)

  it.effect("says what was written into it, to each reader, who keeps it until the place is another", () =>
    property(fc.tuple(content, fc.constantFrom(...readers)), ([content, reader]) =>
      Effect.gen(function*() {
        const cipher = yield* TokenCipher
        const token = yield* sealChangeToken(cipher, content, reader)
        assert.isTrue(Schema.is(ChangeToken)(token))
        assert.deepStrictEqual(yield* openChangeToken(cipher, token, reader), { ...content, token })
        const opened = yield* openChangeToken(cipher, token, reader)
        assert.strictEqual(yield* sealChangeToken(cipher, content, reader, opened), token)
      })))

  it.effect("is refused if a character is changed, added or removed, or another reader or other filters use it", () =>
    property(
      fc.tuple(content, fc.nat(), fc.constantFrom(..."ABab01-_=."), fc.constantFrom("change", "add", "remove")),
      ([content, at, character, how]) =>
        Effect.gen(function*() {
          const token = yield* sealChangeToken(yield* TokenCipher, content, ledgerReader)
          const place = at % token.length
          const rest = token.slice(how === "add" ? place : place + 1)
          const changed = token.slice(0, place) + (how === "remove" ? "" : character) + rest
          // The last bits of base64url may have no meaning.
          const isSame = Buffer.from(changed, "base64url").equals(Buffer.from(token, "base64url"))
          if (!isSame) assert.isTrue(yield* isRefused(changed))
          for (const reader of readers.slice(1)) assert.isTrue(yield* isRefused(token, reader))
        })
    ))

  it.effect("permits filters in any order, and repeated", () =>
    Effect.gen(function*() {
      const position = { high: { position: 1, id: beforeAllIds }, pending: [], isWhole: true }
      const token = yield* sealChangeToken(
        yield* TokenCipher,
        { history: "h", owner: "", position },
        grantReader(grant, query)
      )
      const states = ["failed", "succeeded", "failed"] as const
      assert.isFalse(yield* isRefused(token, grantReader(grant, { ...query, states })))
    }))

  it.effect("fits into a request, also the longest", () =>
    Effect.gen(function*() {
      const last = Number.MAX_SAFE_INTEGER
      const pending = Array.from({ length: maxPending }, (_, n) => ({
        position: last - maxPending + n,
        // A page ends inside one transaction at most.
        id: n === 0 ? afterAllIds : beforeAllIds
      }))
      const position = { high: { position: last, id: afterAllIds }, pending, isWhole: true }
      const longest = { history: "x".repeat(12), owner: "x".repeat(32), position }
      const token = yield* sealChangeToken(yield* TokenCipher, longest, ledgerReader)
      assert.isAtMost(token.length, maxChangeToken)
      assert.isFalse(yield* isRefused(token))
    }))

  it.effect("shows neither its place nor how many digits that has: tokens of all ordinary places look alike", () =>
    Effect.gen(function*() {
      const cipher = yield* TokenCipher
      const tokenOf = (position: number) => {
        const place = { high: { position, id: afterAllIds }, pending: [], isWhole: true }
        return sealChangeToken(
          cipher,
          { history: "x".repeat(12), owner: "x".repeat(32), position: place },
          ledgerReader
        )
      }
      const tokens = yield* Effect.forEach([1, 46_655, Number.MAX_SAFE_INTEGER, 1], tokenOf)
      assert.lengthOf(new Set(tokens.map(({ length }) => length)).values().toArray(), 1)
      assert.strictEqual(new Set(tokens).size, tokens.length)
      assert.notInclude(Buffer.from(tokens[1]!, "base64url").toString("latin1"), "zzz")
    }))
})
