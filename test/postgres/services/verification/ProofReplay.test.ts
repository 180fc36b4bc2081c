/**
 * Each DPoP proof is accepted once, by all processes together, and is forgotten after it expired. The tests run against
 * PostgreSQL and the memory store, and sweep real tables.
 */
import { assert, layer } from "@effect/vitest"
import { type Context, DateTime, Duration, Effect, Layer, Logger } from "effect"
import type { Digest } from "effect/crypto"
import { SqlClient, type SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
import type { DpopProofUse } from "../../../../src/oauth/DpopProof.ts"
import { ProofReplay } from "../../../../src/services/verification/ProofReplay.ts"
import { unique } from "../../../fixtures/ledger/Ledger.ts"
import { anotherPool, openTransaction, terminate, untilWaiting, whileLocked } from "../../../fixtures/postgres/Pools.ts"
import { Platform, TestDatabase } from "../../../fixtures/postgres/TestDatabase.ts"

type Services = SqlClient.SqlClient | Digest.Digest

const Postgres = Layer.merge(TestDatabase, Platform)

/** A DPoP proof that expires this long after now, by the clock of this machine. */
const proofOf = (proof: Partial<DpopProofUse> = {}, expiresIn: Duration.Input = "1 minute"): DpopProofUse => ({
  jkt: unique("key"),
  jti: unique("proof"),
  expires_at: DateTime.makeUnsafe(Date.now() + Duration.toMillis(expiresIn)),
  ...proof
})

const remember = (proof: DpopProofUse) => ProofReplay.use((replay) => replay.remember(proof))

/** The service of another process. Connecting takes no time of the test's clock. */
const anotherReplay = (
  options: Parameters<typeof anotherPool>[0] = {}
): Layer.Layer<ProofReplay, SqlError.SqlError, Services> =>
  Layer.fresh(ProofReplay.layer).pipe(Layer.provide(anotherPool({ connectTimeout: "1 hour", ...options })))

const rows = Effect.map(
  SqlClient.SqlClient.use((sql) => sql<{ readonly rows: number }>`SELECT count(*)::int AS rows FROM dpop_proofs`),
  ([row]) => row!.rows
)

const untilRowsAre = Effect.fnUntraced(function*(expected: number) {
  while ((yield* rows) !== expected);
})

const implementations = {
  "in memory": Layer.provideMerge(ProofReplay.layerMemory, Platform),
  "in PostgreSQL": Layer.provideMerge(ProofReplay.layer, Postgres)
}

for (const [where, implementation] of Object.entries(implementations)) {
  layer(implementation as Layer.Layer<ProofReplay, unknown>, { excludeTestServices: true })(
    `a proof (${where})`,
    (it) => {
      it.effect("is accepted once", () =>
        Effect.gen(function*() {
          const proof = proofOf()
          assert.isTrue(yield* remember(proof))
          for (let n = 0; n < 3; n++) assert.isFalse(yield* remember(proof))
          assert.isFalse(yield* remember({ ...proof, expires_at: proofOf({}, "1 hour").expires_at }))
        }))

      it.effect("differs from a proof with another key or another jti", () =>
        Effect.gen(function*() {
          for (
            const [jkt, jti] of [["a", "bc"], ["ab", "c"], ["", "abc"], ["abc", ""], ["1:a", "bc"], ["1", ":abc"], [
              "bc",
              "a"
            ]] as const
          ) {
            assert.isTrue(yield* remember(proofOf({ jkt, jti })), `${jkt} ${jti}`)
            assert.isFalse(yield* remember(proofOf({ jkt, jti })), `${jkt} ${jti}`)
          }
        }))

      it.effect("may have any jti", () =>
        Effect.gen(function*() {
          for (const jti of ["\u0000", "'; DROP TABLE dpop_proofs; --", "é", "🏦", "x".repeat(5000), "\ud800"]) {
            assert.isTrue(yield* remember(proofOf({ jkt: "names", jti })))
            assert.isFalse(yield* remember(proofOf({ jkt: "names", jti })))
          }
        }))

      it.effect("that is shown a hundred times concurrently is accepted once", () =>
        Effect.gen(function*() {
          const proof = proofOf()
          const answers = yield* Effect.all(Array.from({ length: 100 }, () => remember(proof)), {
            concurrency: "unbounded"
          })
          assert.lengthOf(answers.filter((isFirst) => isFirst), 1)
        }))

      it.effect("that has expired is not accepted again", () =>
        Effect.gen(function*() {
          const proof = proofOf({}, "-1 seconds")
          assert.isTrue(yield* remember(proof))
          assert.isFalse(yield* remember(proof))
        }))
    }
  )
}

layer(Postgres, { excludeTestServices: true })("DPoP proofs that several processes see", (it) => {
  it.effect("are accepted once: a hundred concurrent uses in four processes, fifty times over", () =>
    Effect.gen(function*() {
      const processes: ReadonlyArray<Context.Context<ProofReplay>> = yield* Effect.all(
        Array.from({ length: 4 }, () => Layer.build(anotherReplay()))
      )
      for (let round = 0; round < 50; round++) {
        const proof = proofOf()
        const answers = yield* Effect.all(
          Array.from({ length: 100 }, (_, n) => Effect.provideContext(remember(proof), processes[n % 4]!)),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(answers.filter((isFirst) => isFirst), 1)
      }
    }))

  it.effect("are stored as digests: the database holds no part of a proof", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const proof = proofOf({ jkt: "a-thumbprint", jti: "a-name" })
      yield* Effect.provide(remember(proof), anotherReplay())
      const stored = yield* sql`SELECT t::text || encode(digest, 'escape') AS text FROM dpop_proofs t`
      assert.notMatch(JSON.stringify(stored), /thumbprint|a-name/)
    }))

  it.effect("fail closed with StoreUnavailable for a role that may only read", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(remember(proofOf())).pipe(
        Effect.provide(anotherReplay({ startupParameters: { default_transaction_read_only: "on" } }))
      )
      assert.strictEqual(error._tag, "StoreUnavailable")
    }))

  it.effect("fail with StoreUnavailable when no database listens", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(remember(proofOf())).pipe(Effect.provide(anotherReplay({ host: "/nowhere" })))
      assert.strictEqual(error._tag, "StoreUnavailable")
    }))
})

/** The longest time between two sweeps. */
const sweep = TestClock.adjust("36 seconds")

/** Fills the table, one DPoP proof every millisecond. */
const fill = (count: number, expiresIn: string) =>
  SqlClient.SqlClient.use((sql) =>
    sql`
      INSERT INTO dpop_proofs (digest, expires_at)
      SELECT sha256(convert_to(${unique("batch")} || n, 'UTF8')), now() + ${expiresIn}::interval + n * interval '1 ms'
      FROM generate_series(1, ${count}) n`
  )

const empty = SqlClient.SqlClient.use((sql) => sql`DELETE FROM dpop_proofs`)

layer(Postgres)("the table of DPoP proofs", (it) => {
  it.effect("loses in a sweep every row that expired more than a minute ago, and no other row", () =>
    Effect.gen(function*() {
      yield* empty
      yield* fill(3500, "-70 seconds")
      yield* fill(10, "-30 seconds")
      yield* fill(10, "1 minute")
      yield* Layer.build(anotherReplay())
      yield* sweep
      yield* untilRowsAre(20)
      yield* fill(1, "-70 seconds")
      yield* sweep
      yield* untilRowsAre(20)
    }))

  it.effect("is swept by several processes concurrently, also while another role holds advisory locks", () =>
    Effect.gen(function*() {
      yield* empty
      yield* fill(2500, "-70 seconds")
      yield* fill(10, "1 minute")
      const { lines, logger } = logged()
      for (let processes = 0; processes < 4; processes++) {
        yield* Effect.provide(Layer.build(anotherReplay()), logger)
      }
      yield* Effect.scoped(Effect.gen(function*() {
        const run = yield* openTransaction
        yield* run("SELECT pg_advisory_xact_lock(hashtextextended('financial-agents-gateway/dpop_proofs', 0))")
        yield* sweep
        yield* untilRowsAre(10)
      }))
      assert.deepStrictEqual(lines, [])
    }))
})

/** Keeps the log lines. */
const logged = () => {
  const lines: Array<string> = []
  const logger = Logger.layer([Logger.make((entry) => void lines.push(Logger.formatJson.log(entry)))])
  return { lines, logger }
}

layer(Postgres)("a sweep that fails", (it) => {
  it.effect("is logged, and the next sweep succeeds, after its connection was terminated", () =>
    Effect.gen(function*() {
      const { lines, logger } = logged()
      yield* empty
      yield* fill(10, "-70 seconds")
      yield* Effect.provide(Layer.build(anotherReplay({ applicationName: "victim", maxConnections: 1 })), logger)
      yield* whileLocked(
        "dpop_proofs",
        Effect.gen(function*() {
          yield* sweep
          yield* untilWaiting(1)
          assert.isAtLeast(yield* terminate("victim"), 1)
          while (lines.length === 0) yield* Effect.yieldNow
        })
      )
      assert.strictEqual(yield* rows, 10)
      yield* sweep
      yield* untilRowsAre(0)
      assert.lengthOf(lines, 1)
      assert.include(lines[0], "Could not delete expired DPoP proofs")
      assert.match(lines[0]!, /"cause":"[^"]*connection/i)
    }))

  it.effect("is logged, and the next sweep succeeds, after its statement was refused", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { lines, logger } = logged()
      yield* empty
      yield* fill(10, "-70 seconds")
      yield* Effect.provide(Layer.build(anotherReplay()), logger)
      yield* sql`ALTER TABLE dpop_proofs RENAME TO away`
      yield* sweep
      while (lines.length === 0) yield* Effect.yieldNow
      yield* sql`ALTER TABLE away RENAME TO dpop_proofs`
      yield* sweep
      yield* untilRowsAre(0)
      assert.lengthOf(lines, 1)
    }))

  it.effect("because its gateway stops is not logged as a failure", () =>
    Effect.gen(function*() {
      const { lines, logger } = logged()
      const stopping = yield* Effect.scoped(Effect.gen(function*() {
        yield* Effect.provide(Layer.build(anotherReplay()), logger)
        return yield* whileLocked(
          "dpop_proofs",
          Effect.gen(function*() {
            yield* sweep
            yield* untilWaiting(1)
            return yield* Effect.void
          })
        )
      }))
      assert.isUndefined(stopping)
      assert.deepStrictEqual(lines, [])
    }))
})

layer(Layer.provideMerge(ProofReplay.layerMemory, Platform))("DPoP proofs in memory", (it) => {
  it.effect("are forgotten a minute after they expired, and not before", () =>
    Effect.gen(function*() {
      const proof = { jkt: "key", jti: "proof", expires_at: yield* DateTime.now }
      const replay = yield* Layer.build(Layer.fresh(ProofReplay.layerMemory))
      const isFirst = Effect.provideContext(remember(proof), replay)
      assert.isTrue(yield* isFirst)
      yield* TestClock.adjust("60 seconds")
      assert.isFalse(yield* isFirst)
      yield* TestClock.adjust("36 seconds")
      assert.isTrue(yield* isFirst)
    }))
})
