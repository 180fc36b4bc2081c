/**
 * Access tokens of the gateway have a fixed form, a checksum and 256 random bits, and never appear in output. The tests
 * use real and fixed random bytes.
 */
import { NodeCrypto } from "@effect/platform-node"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer, Logger, Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { createHash } from "node:crypto"
import { inspect } from "node:util"
import { accessTokenDigest, accessTokenPattern, generateAccessToken } from "../../../src/domain/Credential.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const fromBase62 = (text: string): bigint =>
  [...text].reduce((value, digit) => value * 62n + BigInt(alphabet.indexOf(digit)), 0n)

const sha256 = (text: string) => createHash("sha256").update(text, "utf8").digest()

const generate = Effect.map(generateAccessToken, Redacted.value)

/** A random generator that yields these bytes and counts the bytes that it was asked for. */
const fixedRandom = (bytes: Uint8Array, asked: Array<number> = []) =>
  Layer.succeed(
    SecureRandom.SecureRandom,
    SecureRandom.make((size) => {
      asked.push(size)
      return bytes
    })
  )

layer(Layer.merge(NodeCrypto.layerDigest, NodeCrypto.layerSecureRandom))("an access token", (it) => {
  it.effect("starts with fingw_, followed by 43 + 6 base62 digits", () =>
    Effect.gen(function*() {
      for (let n = 0; n < 200; n++) {
        const token = yield* generate
        assert.match(token, /^fingw_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$/)
        assert.match(token, accessTokenPattern)
      }
    }))

  it.effect("ends with a checksum that a scanner can verify offline", () =>
    Effect.gen(function*() {
      for (let n = 0; n < 200; n++) {
        const token = yield* generate
        const body = token.slice(0, -6)
        assert.strictEqual(fromBase62(token.slice(-6)), BigInt(sha256(body).readUInt32BE(0)))
      }
    }))

  it.effect("holds all of 256 random bits", () =>
    Effect.gen(function*() {
      const samples = [
        new Uint8Array(32),
        new Uint8Array(32).fill(255),
        Uint8Array.from({ length: 32 }, (_, index) => index),
        Uint8Array.from({ length: 32 }, (_, index) => (index === 31 ? 1 : 0))
      ]
      for (const bytes of samples) {
        const asked: Array<number> = []
        const token = yield* generate.pipe(Effect.provide(fixedRandom(bytes, asked)))
        assert.deepStrictEqual(asked, [32])
        assert.match(token, accessTokenPattern)
        assert.strictEqual(fromBase62(token.slice(6, 49)), BigInt(`0x${Buffer.from(bytes).toString("hex")}`))
      }
    }))

  it.effect("is stored as its SHA-256 in hex", () =>
    Effect.gen(function*() {
      const token = yield* generate
      const digest = yield* accessTokenDigest(yield* Digest.Digest, token)
      assert.strictEqual(digest, sha256(token).toString("hex"))
      assert.notInclude(digest, token.slice(6))
    }))

  it.effect("is redacted when it is printed, inspected, serialized or logged", () =>
    Effect.gen(function*() {
      const token = yield* generateAccessToken
      const secret = Redacted.value(token).slice(6)
      const lines: Array<string> = []
      const logger = Layer.mergeAll(
        Logger.layer([
          Logger.map(Logger.formatJson, (line) => void lines.push(line)),
          Logger.map(Logger.formatLogFmt, (line) => void lines.push(line)),
          Logger.map(Logger.formatSimple, (line) => void lines.push(line))
        ])
      )
      yield* Effect.log("issued", token, { token }).pipe(Effect.annotateLogs({ token }), Effect.provide(logger))
      assert.lengthOf(lines, 3)
      const shown = [...lines, String(token), `${token}`, JSON.stringify({ token }), inspect({ token }, { depth: 9 })]
      for (const text of shown) assert.notInclude(text, secret)
    }))
})

describe("the pattern of access tokens", () => {
  it("matches a whole token without the text around it", () => {
    const token = `fingw_${"0".repeat(49)}`
    assert.match(token, accessTokenPattern)
    const others = [` ${token}`, `${token}\n`, `${token}0`, token.slice(0, -1), token.replace("fingw_", "fingw-")]
    for (const other of [...others, token.toUpperCase(), `fingw_${"-".repeat(49)}`, ""]) {
      assert.notMatch(other, accessTokenPattern)
    }
  })
})
