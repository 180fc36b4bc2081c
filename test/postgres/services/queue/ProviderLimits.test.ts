/** Permits of provider limits in both implementations: no caller gets a permit twice, and a pause holds for all. */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { type PermitDemand, type PermitTerms, permitTerms } from "../../../../src/domain/ProviderLimit.ts"
import { conformance, newProvider, PostgresLedger } from "../../../fixtures/ledger/Ledger.ts"
import { Queue, queueIn } from "../../../fixtures/ledger/QueueServices.ts"
import { anotherQueue, inTime, openTransaction, untilWaiting } from "../../../fixtures/postgres/Pools.ts"

const terms = permitTerms({ requests: 50, interval: "1 second" }, 250)
const many: PermitDemand = { submissions: 1000, reads: 1000 }
const none: PermitDemand = { submissions: 0, reads: 0 }

const counted = ({ reads, submissions }: { readonly reads: Permits; readonly submissions: Permits }) =>
  reads.permits.length + submissions.permits.length
interface Permits {
  readonly permits: ReadonlyArray<number>
}

const mostOf = ({ burst, spacing }: PermitTerms["shared"], elapsed: number, horizon: number): number =>
  Math.floor((elapsed * 1000 + horizon) / spacing) + burst

/** The most permits that the buckets have until the horizon, `elapsed` milliseconds after the first call. */
const mostAfter = (elapsed: number, { horizon, reads, shared }: PermitTerms): number =>
  mostOf(shared, elapsed, horizon) + mostOf(reads!, elapsed, horizon)

conformance("permits of a provider's limit", (it) => {
  it.effect("are reserved as far as the horizon, and then no more until time passes", () =>
    Effect.gen(function*() {
      const { reservePermits } = yield* Queue
      const provider = newProvider()
      const since = performance.now()
      const first = yield* reservePermits(provider, many, terms)
      assert.isAtLeast(counted(first), 8)
      assert.isAtMost(Math.max(...first.submissions.permits, ...first.reads.permits), 250)
      assert.isAbove(first.submissions.again, 0)
      const next = yield* reservePermits(provider, many, terms)
      assert.isAtMost(counted(first) + counted(next), mostAfter(performance.now() - since, terms))
    }))

  it.effect("are only looked at by openPermits", () =>
    Effect.gen(function*() {
      const { openPermits, reservePermits } = yield* Queue
      const provider = newProvider()
      const open = yield* openPermits(provider, many, terms)
      yield* openPermits(provider, many, terms)
      const reserved = yield* reservePermits(provider, many, terms)
      assert.isAtLeast(counted(reserved), counted(open))
      assert.deepStrictEqual(yield* reservePermits(newProvider(), none, terms), {
        submissions: { permits: [], again: 1 },
        reads: { permits: [], again: 1 }
      })
    }))

  it.effect("of one provider are not those of another", () =>
    Effect.gen(function*() {
      const { reservePermits } = yield* Queue
      const first = yield* reservePermits(newProvider(), many, terms)
      assert.isAtLeast(counted(yield* reservePermits(newProvider(), many, terms)), counted(first) - 1)
    }))

  it.effect("are closed by a pause, which a shorter one does not shorten", () =>
    Effect.gen(function*() {
      const { closeProvider, openPermits, reservePermits } = yield* Queue
      const provider = newProvider()
      yield* reservePermits(provider, { submissions: 1, reads: 0 }, terms)
      yield* closeProvider(provider, Duration.seconds(60))
      yield* closeProvider(provider, Duration.seconds(1))
      const closed = yield* reservePermits(provider, many, terms)
      assert.strictEqual(counted(closed), 0)
      assert.isAbove(closed.submissions.again, 50_000)
      assert.isAbove(closed.reads.again, 50_000)
      assert.strictEqual(counted(yield* openPermits(provider, many, terms)), 0)
    }))

  it.effect("are closed also before the first request, and for 5 minutes at most", () =>
    Effect.gen(function*() {
      const { closeProvider, openPermits } = yield* Queue
      const provider = newProvider()
      yield* closeProvider(provider, Duration.days(1))
      const { submissions } = yield* openPermits(provider, many, terms)
      assert.isEmpty(submissions.permits)
      assert.isAtMost(submissions.again, 300_000)
    }))
})

layer(PostgresLedger, { excludeTestServices: true })("permits of a provider's limit", (it) => {
  it.effect("are given once, to 8 processes that ask at the same time", () =>
    Effect.gen(function*() {
      // Fast enough that each process gets some permits from most of its statements.
      const fast = permitTerms({ requests: 5000, interval: "1 second" }, 250)
      const provider = newProvider()
      const since = performance.now()
      const demands = (seed: number) => Array.from({ length: 60 }, (_, n) => (seed + n) % 9)
      const totals = yield* Effect.forEach(
        Array.from({ length: 8 }, (_, n) => n),
        (seed) =>
          Effect.gen(function*() {
            const { reservePermits } = queueIn(yield* anotherQueue())
            let total = 0
            for (const demand of demands(seed)) {
              total += counted(yield* reservePermits(provider, { submissions: 10 * demand, reads: 9 - demand }, fast))
            }
            return total
          }),
        { concurrency: "unbounded" }
      )
      const total = totals.reduce((sum, each) => sum + each, 0)
      assert.isAtMost(total, mostAfter(performance.now() - since, fast))
      assert.isTrue(totals.every((each) => each > 0))
      // Each permit moved its bucket by one spacing, so none was given twice.
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ readonly left: number }>`
        SELECT (shared_until - extract(epoch FROM clock_timestamp()) * 1000000)::float8 AS left
        FROM provider_limits WHERE provider = ${provider}`
      assert.isAtMost(row!.left, fast.horizon + fast.shared.burst * fast.shared.spacing)
    }))

  it.effect.each(["submissions", "reads"] as const)(
    "for %s are given to one of two processes that saw the same state",
    (kind) =>
      Effect.gen(function*() {
        const reservedForReads = kind === "reads" ? 0.5 : 0
        const slow = permitTerms({ requests: 20, interval: "1 hour", burst: 10, reservedForReads }, 250)
        const provider = newProvider()
        const since = performance.now()
        const { reservePermits } = yield* Queue
        // Only the bucket of the kind has permits left.
        const used = kind === "reads" ? { submissions: 50, reads: 1 } : { submissions: 1, reads: 0 }
        const first = yield* reservePermits(provider, used, slow)
        const others = yield* Effect.scoped(Effect.gen(function*() {
          const run = yield* openTransaction
          yield* run("SELECT FROM provider_limits WHERE provider = $1 FOR UPDATE", [provider])
          const asking = yield* Effect.forEach([1, 2], () =>
            Effect.gen(function*() {
              const other = queueIn(yield* anotherQueue())
              return yield* Effect.forkChild(
                other.reservePermits(provider, { submissions: 0, reads: 0, [kind]: 50 }, slow)
              )
            }))
          // Both have read the row, and wait to write it.
          yield* inTime(untilWaiting(2))
          yield* run("ROLLBACK")
          return yield* Fiber.joinAll(asking)
        }))
        const given = [first, ...others].reduce((sum, permits) => sum + permits[kind].permits.length, 0)
        const bucket = kind === "reads" ? slow.reads! : slow.shared
        assert.isAtMost(given, mostOf(bucket, performance.now() - since, slow.horizon))
        assert.isAbove(given, 1)
      })
  )

  it.effect("are given again within the horizon after the clock of the database was set back", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { openPermits, reservePermits } = yield* Queue
      const provider = newProvider()
      yield* reservePermits(provider, many, terms)
      // As after a clock that was set back by a day.
      yield* sql`
        UPDATE provider_limits SET shared_until = shared_until + 86400000000, reads_until = reads_until + 86400000000
        WHERE provider = ${provider}`
      // Pollers only look, and reserve nothing while nothing is open.
      const { reads, submissions } = yield* openPermits(provider, many, terms)
      assert.isEmpty([...reads.permits, ...submissions.permits])
      assert.isAtMost(submissions.again, 1000)
      yield* Effect.sleep(Math.max(submissions.again, reads.again))
      const later = yield* reservePermits(provider, many, terms)
      assert.isNotEmpty(later.submissions.permits)
      assert.isNotEmpty(later.reads.permits)
    }))

  it.effect("are closed no longer than the longest pause after the clock of the database was set back", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { closeProvider, openPermits } = yield* Queue
      const provider = newProvider()
      yield* closeProvider(provider, Duration.seconds(1))
      // As after a clock that was set back by a day.
      yield* sql`UPDATE provider_limits SET closed_until = closed_until + 86400000000 WHERE provider = ${provider}`
      // Pollers only look, and reserve nothing while nothing is open.
      assert.strictEqual(counted(yield* openPermits(provider, many, terms)), 0)
      // As five minutes later.
      yield* sql`
        UPDATE provider_limits SET closed_until = closed_until - 300000000, shared_until = shared_until - 300000000,
          reads_until = reads_until - 300000000
        WHERE provider = ${provider}`
      assert.isAtLeast(counted(yield* openPermits(provider, many, terms)), 1)
    }))
})
