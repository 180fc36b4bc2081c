/** A change token says what its feed wrote into it, to its reader alone, and fits into the target of a request. */
import { NodeCrypto } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import type { Digest } from "effect/crypto"
import * as Base64Url from "effect/encoding/Base64Url"
import * as fc from "fast-check"
import { createHash } from "node:crypto"
import { ChangeToken, maxChangeToken } from "../../../src/domain/ChangeFeed.ts"
import type { OperationId } from "../../../src/domain/Operation.ts"
import {
  afterAllIds,
  beforeAllIds,
  type ChangePlace,
  maxPending
} from "../../../src/services/internal/changePosition.ts"
import {
  type ChangeTokenContent,
  decodeChangeToken,
  encodeChangeToken,
  grantReader,
  ledgerReader
} from "../../../src/services/internal/changeToken.ts"
import { rounds } from "../../fixtures/Effort.ts"

const id = fc.oneof(
  fc.uuid().map((id) => id as OperationId),
  fc.constantFrom(beforeAllIds, afterAllIds)
)

const position = fc.oneof(fc.nat(), fc.maxSafeNat())

const content: fc.Arbitrary<ChangeTokenContent> = fc.record({
  history: fc.uint8Array({ minLength: 9, maxLength: 9 }).map((bytes) => Buffer.from(bytes).toString("base64")),
  places: fc.uniqueArray(position, { minLength: 1, maxLength: 20 }),
  ids: fc.array(id, { minLength: 20, maxLength: 20 }),
  isWhole: fc.boolean()
}).map(({ history, ids, isWhole, places }) => {
  const ascending = places.toSorted((a, b) => a - b).map((position, n): ChangePlace => ({ position, id: ids[n]! }))
  return { history, position: { high: ascending.at(-1)!, pending: ascending.slice(0, -1), isWhole } }
})

const grant = { client_id: "client", subject: "subject", resource_owner: "owner" }
const query = { states: ["succeeded", "failed"], type: "payment", page_size: 10, after: null } as const
const readers = [
  ledgerReader,
  grantReader(grant, query),
  grantReader(grant, { ...query, type: null }),
  grantReader(grant, { ...query, states: ["failed"] }),
  grantReader({ ...grant, subject: "other" }, query),
  grantReader({ ...grant, client_id: "other" }, query),
  grantReader({ ...grant, resource_owner: "other" }, query)
]

const isRefused = (token: string, reader = ledgerReader) =>
  Effect.map(Effect.result(decodeChangeToken(token as ChangeToken, reader)), Result.isFailure)

/** A token of any text, with the hash that the feed would give it. */
const forge = (text: string, reader = ledgerReader) => {
  const hash = createHash("sha256").update(JSON.stringify([text, ...reader])).digest("hex").slice(0, 32)
  return Base64Url.encode(`${text}.${hash}`)
}

layer(NodeCrypto.layerDigest)("A change token", (it) => {
  const property = <A>(arbitrary: fc.Arbitrary<A>, check: (value: A) => Effect.Effect<void, never, Digest.Digest>) =>
    Effect.flatMap(Effect.context<Digest.Digest>(), (context) =>
      Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(arbitrary, (value) => Effect.runPromiseWith(context)(check(value))),
          { numRuns: rounds(200, 2000) }
        )
      ))

  it.effect("says what was written into it, to each reader", () =>
    property(fc.tuple(content, fc.constantFrom(...readers)), ([content, reader]) =>
      Effect.gen(function*() {
        const token = yield* encodeChangeToken(content, reader)
        assert.isTrue(Schema.is(ChangeToken)(token))
        assert.deepStrictEqual(yield* Effect.orDie(decodeChangeToken(token, reader)), content)
      })))

  it.effect("is refused if a character is changed, added or removed, or another reader or other filters use it", () =>
    property(
      fc.tuple(content, fc.nat(), fc.constantFrom(..."ABab01-_=."), fc.constantFrom("change", "add", "remove")),
      ([content, at, character, how]) =>
        Effect.gen(function*() {
          const token = yield* encodeChangeToken(content, ledgerReader)
          const place = at % token.length
          const rest = token.slice(how === "add" ? place : place + 1)
          const changed = token.slice(0, place) + (how === "remove" ? "" : character) + rest
          if (changed !== token) assert.isTrue(yield* isRefused(changed))
          for (const reader of readers.slice(1)) assert.isTrue(yield* isRefused(token, reader))
        })
    ))

  it.effect("permits filters in any order, and repeated", () =>
    Effect.gen(function*() {
      const place = { history: "h", position: { high: { position: 1, id: beforeAllIds }, pending: [], isWhole: true } }
      const token = yield* encodeChangeToken(place, grantReader(grant, query))
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
      const longest = yield* encodeChangeToken({ history: "x".repeat(12), position }, ledgerReader)
      assert.isAtMost(longest.length, maxChangeToken)
      assert.isFalse(yield* isRefused(longest))
    }))

  it.effect("is refused if its places are not ascending, are too many, or are no numbers, also with the right hash", () =>
    Effect.gen(function*() {
      assert.isFalse(yield* isRefused(forge("1.history.whole.9.3.5")))
      const many = (count: number) => Array.from({ length: count }, (_, n) => n.toString(36)).join(".")
      assert.isFalse(yield* isRefused(forge(`1.history.whole.zz.${many(maxPending)}`)))
      const forged = [
        "2.history.whole.9",
        "1.history",
        "1.history.whole",
        "1.history.other.9",
        "1.history.whole.9.9",
        "1.history.whole.9.5.5",
        "1.history.whole.9.5.3",
        "1.history.whole.9.z",
        "1.history.whole.09",
        "1.history.whole.-1",
        "1.history.whole.9_x",
        "1.history.whole.9.",
        "1.history.whole.9.3_00000000-0000-0000-0000-000000000000",
        `1.history.whole.${Number.MAX_SAFE_INTEGER.toString(36)}0`,
        "1.history.whole.zzzzzzzzzzz",
        `1.history.whole.zz.${many(maxPending + 1)}`
      ]
      for (const text of forged) assert.isTrue(yield* isRefused(forge(text)), text)
    }))
})
