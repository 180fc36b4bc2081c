/**
 * Keys of one issuer may share a `kid`: its tokens stay good, and a forged one is refused as invalid, never as an outage. The tests
 * serve such key sets.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { makeFakeServer } from "../../fixtures/oauth/FakeServer.ts"
import { epoch, type Signer, signerOf, tokenOf } from "../../fixtures/oauth/Issuing.ts"
import { makeVerifier, verdictOn } from "../../fixtures/oauth/TokenScene.ts"

/** A signer whose key has the name `shared`. */
const sharing = (name: string, algorithm?: string): Effect.Effect<Signer> =>
  Effect.map(signerOf(name, algorithm), (signer) => ({ ...signer, jwk: { ...signer.jwk, kid: "shared" } }))

const makeShared = Effect.fnUntraced(function*(count: number) {
  yield* TestClock.setTime(epoch * 1000)
  const signers = yield* Effect.forEach(Array.from({ length: count }), (_, n) => sharing(`shared ${n}`))
  const server = makeFakeServer(signers.map(({ jwk }) => jwk))
  return { signers, server, verify: yield* makeVerifier(server) }
})

describe("A token whose kid several keys share", () => {
  it.effect("is accepted if one of them verifies it", () =>
    Effect.gen(function*() {
      const { signers, verify } = yield* makeShared(4)
      for (const signer of signers) assert.strictEqual(yield* verdictOn(verify, yield* tokenOf(signer)), "accepted")
    }))

  it.effect("is invalid if none of them verifies it, and causes no fetch", () =>
    Effect.gen(function*() {
      const { server, verify } = yield* makeShared(2)
      const thief = yield* sharing("thief")
      for (let round = 0; round < 3; round++) {
        assert.strictEqual(yield* verdictOn(verify, yield* tokenOf(thief)), "InvalidCredential")
        // A later search may fetch.
        yield* TestClock.adjust("31 seconds")
      }
      assert.strictEqual(server.asked("/jwks"), 1)
    }))

  it.effect("is tried with four keys at most, which bounds the cost of a forged one", () =>
    Effect.gen(function*() {
      const { signers, verify } = yield* makeShared(5)
      assert.strictEqual(yield* verdictOn(verify, yield* tokenOf(signers[3]!)), "accepted")
      assert.strictEqual(yield* verdictOn(verify, yield* tokenOf(signers[4]!)), "InvalidCredential")
    }))
})
