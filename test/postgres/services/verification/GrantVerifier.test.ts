/**
 * The verifier accepts exactly the tokens that were issued, and its cache never hides a revocation. The tests run
 * against PostgreSQL and the memory store.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted } from "effect"
import { Digest } from "effect/crypto"
import { TestClock } from "effect/testing"
import { inspect } from "node:util"
import { accessTokenDigest, bearer, generateAccessToken } from "../../../../src/domain/Credential.ts"
import { Grants } from "../../../../src/services/Grants.ts"
import { MemoryLedger } from "../../../../src/services/memory/MemoryLedger.ts"
import { OperationStore } from "../../../../src/services/OperationStore.ts"
import { GrantVerifier } from "../../../../src/services/verification/GrantVerifier.ts"
import {
  conformance,
  everything,
  fieldsOf,
  InMemoryLedger,
  issue,
  PostgresLedger
} from "../../../fixtures/ledger/Ledger.ts"
import { anotherPool, anotherProcess, untilWaiting, whileLocked } from "../../../fixtures/postgres/Pools.ts"
import { layerRecorded, Statements } from "../../../fixtures/postgres/Statements.ts"
import { Platform } from "../../../fixtures/postgres/TestDatabase.ts"

const verify = (token: Redacted.Redacted<string>) => GrantVerifier.use((verifier) => verifier.verify(bearer(token)))

conformance("the verifier of access tokens", (it) => {
  it.effect("yields the identity of the grant that the token was issued for", () =>
    Effect.gen(function*() {
      const issued = yield* Effect.all(Array.from({ length: 5 }, () => issue()))
      for (let round = 0; round < 2; round++) {
        for (const { access_token, identity } of issued) {
          assert.deepStrictEqual({ ...(yield* verify(access_token)) }, identity)
        }
      }
    }))

  it.effect("refuses every string that is not an issued token", () =>
    Effect.gen(function*() {
      const { access_token } = yield* issue()
      const token = Redacted.value(access_token)
      const last = token.at(-1) === "0" ? "1" : "0"
      const credentials = [
        "",
        " ",
        "Bearer",
        token.slice(0, -1),
        `${token}0`,
        ` ${token}`,
        `${token}\n`,
        `Bearer ${token}`,
        token.slice(0, -1) + last,
        token.toLowerCase(),
        `fingw_${"0".repeat(49)}`,
        "fingw_'; DROP TABLE grants; --",
        Redacted.value(yield* generateAccessToken)
      ]
      for (const credential of credentials.filter((credential) => credential !== token)) {
        const error = yield* Effect.flip(verify(Redacted.make(credential)))
        assert.deepStrictEqual(fieldsOf(error), { _tag: "InvalidCredential" }, credential)
      }
    }).pipe(Effect.provide(Platform)))
})

describe("the verifier's cache", () => {
  const unknownToken = Effect.gen(function*() {
    const token = yield* generateAccessToken
    return { token, digest: yield* accessTokenDigest(yield* Digest.Digest, Redacted.value(token)) }
  })

  it.effect("keeps the identity of a token for a minute", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryLedger
      const { access_token, identity } = yield* issue()
      assert.deepStrictEqual(yield* verify(access_token), identity)
      memory.tokens.clear()
      yield* TestClock.adjust("59 seconds")
      assert.deepStrictEqual(yield* verify(access_token), identity)
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Effect.flip(verify(access_token)))._tag, "InvalidCredential")
    }).pipe(Effect.provide(InMemoryLedger)))

  it.effect("keeps no refusal: a token is accepted as soon as it exists", () =>
    Effect.gen(function*() {
      const memory = yield* MemoryLedger
      const { identity } = yield* issue()
      const { digest, token } = yield* unknownToken
      assert.strictEqual((yield* Effect.flip(verify(token)))._tag, "InvalidCredential")
      memory.tokens.set(digest, identity)
      assert.deepStrictEqual(yield* verify(token), identity)
    }).pipe(Effect.provide(InMemoryLedger)))
})

layer(PostgresLedger, { excludeTestServices: true })("the verifier's cache (in PostgreSQL)", (it) => {
  const recorded = Layer.fresh(GrantVerifier.layer.pipe(Layer.provideMerge(layerRecorded)))

  it.effect("saves the statement for every read but the first, also for concurrent reads", () =>
    Effect.gen(function*() {
      const { access_token, identity } = yield* issue()
      const statements = yield* Statements
      const all = Array.from({ length: 50 }, () => verify(access_token))
      for (const verified of yield* Effect.all(all, { concurrency: "unbounded" })) {
        assert.deepStrictEqual({ ...verified }, identity)
      }
      yield* verify(access_token)
      const digest = yield* accessTokenDigest(yield* Digest.Digest, Redacted.value(access_token))
      assert.deepStrictEqual(statements.map(({ parameters }) => parameters), [[digest]], "no token, only its SHA-256")
    }).pipe(Effect.provide(recorded)))

  it.effect("sends no statement for a string that cannot be a token", () =>
    Effect.gen(function*() {
      yield* Effect.flip(verify(Redacted.make("not a token")))
      assert.isEmpty(yield* Statements)
    }).pipe(Effect.provide(recorded)))

  it.effect("keeps no failure of the database: the next verification succeeds", () =>
    Effect.gen(function*() {
      const { access_token, identity } = yield* issue()
      yield* Effect.gen(function*() {
        const error = yield* whileLocked("access_tokens", Effect.flip(verify(access_token)))
        assert.strictEqual(error._tag, "StoreUnavailable")
        assert.notInclude(inspect(error, { depth: Infinity }), Redacted.value(access_token).slice(6))
        assert.deepStrictEqual({ ...(yield* verify(access_token)) }, identity)
      }).pipe(Effect.provide(anotherProcess({ startupParameters: { lock_timeout: "20ms" } })))
    }))

  it.effect("serves the other requests when the first request is interrupted", () =>
    Effect.gen(function*() {
      const { access_token, identity } = yield* issue()
      const second = yield* whileLocked(
        "access_tokens",
        Effect.gen(function*() {
          const first = yield* Effect.forkChild(verify(access_token))
          yield* untilWaiting(1)
          const second = yield* Effect.forkChild(verify(access_token), { startImmediately: true })
          yield* Fiber.interrupt(first)
          return second
        })
      )
      assert.deepStrictEqual({ ...(yield* Fiber.join(second)) }, identity)
    }).pipe(Effect.provide(Layer.fresh(GrantVerifier.layer).pipe(Layer.provide(anotherPool())))))

  it.effect("never lets a revoked grant read, also when another process revoked it", () =>
    Effect.gen(function*() {
      const here = yield* Effect.context<Grants>()
      yield* Effect.gen(function*() {
        const store = yield* OperationStore
        for (let round = 0; round < 30; round++) {
          const { access_token, grant } = yield* Effect.provideContext(issue(), here)
          assert.isEmpty((yield* store.list(yield* verify(access_token), everything)).operations)
          yield* Effect.provideContext(Grants.use((grants) => grants.revoke(grant.grant_id)), here)
          const error = yield* Effect.flip(store.list(yield* verify(access_token), everything))
          assert.deepStrictEqual(fieldsOf(error), { _tag: "GrantRevoked", reason: "revoked" })
        }
      }).pipe(Effect.provide(anotherProcess()))
    }))
})

describe("a verifier of fixed credentials", () => {
  it.effect("accepts exactly these credentials", () =>
    Effect.gen(function*() {
      const { access_token, identity } = yield* issue()
      const fixed = GrantVerifier.layerFixed(new Map([["secret", identity]]))
      const fixedly = (credential: string) => Effect.provide(verify(Redacted.make(credential)), fixed)
      assert.deepStrictEqual(yield* fixedly("secret"), identity)
      for (const other of ["", "Secret", "secret ", Redacted.value(access_token)]) {
        assert.strictEqual((yield* Effect.flip(fixedly(other)))._tag, "InvalidCredential")
      }
    }).pipe(Effect.provide(InMemoryLedger)))
})
