/**
 * The limit of a provider holds for four worker processes together. They run against the real PostgreSQL, and the sandbox notes
 * when each submission and each status read arrives.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { permitTerms } from "../../../src/domain/ProviderLimit.ts"
import { Sandbox } from "../../../src/sandbox/Sandbox.ts"
import { OperationLedger } from "../../../src/services/OperationLedger.ts"
import { accept, issue, newClient, PostgresServices } from "../../fixtures/ledger/Ledger.ts"
import { createDatabase, layerFor, Platform } from "../../fixtures/postgres/TestDatabase.ts"
import { launch, urlOf } from "../../fixtures/processes/CommandLine.ts"

const interval = 1000
/** A long slack, so that only a machine that stands still for longer can delay a request beyond it. */
const limit = { requests: 50, interval, slack: 800 }
const flag = `bank=${limit.requests}/1s;slack=${limit.slack}ms`
const operations = 60

/** Notes how long this process stands still: it is on the machine of the workers. */
const heartbeat = Effect.acquireRelease(
  Effect.sync(() => {
    const stops: Array<{ readonly from: number; readonly to: number }> = []
    let last = Date.now()
    const timer = setInterval(() => {
      const now = Date.now()
      if (now - last > 100) stops.push({ from: last, to: now })
      last = now
    }, 20)
    return { stops, timer }
  }),
  ({ timer }) => Effect.sync(() => clearInterval(timer))
)

/** The most requests in an interval, if none of them arrives later than so many milliseconds after its permit. */
const mostWith = (lateness: number): number => {
  const { reads, shared } = permitTerms(limit, 250)
  return [shared, reads!].reduce(
    (most, { burst, spacing }) => most + burst - 1 + Math.ceil((interval + lateness) * 1000 / spacing),
    0
  )
}

describe("four worker processes and a limit of 50 requests a second", () => {
  it.live("never send more than that, and send each operation once", () =>
    Effect.scoped(Effect.gen(function*() {
      assert.strictEqual(mostWith(limit.slack - 1), limit.requests)
      const database = yield* createDatabase()
      const services = yield* Layer.build(
        Layer.mergeAll(PostgresServices, Sandbox.layer()).pipe(Layer.provide(Layer.fresh(layerFor(database))))
      )
      const sandbox = Context.get(services, Sandbox)
      const ledger = Context.get(services, OperationLedger)
      const { stops } = yield* heartbeat
      const ids = yield* Effect.provideContext(
        Effect.gen(function*() {
          const { identity } = yield* issue({ client_id: newClient() })
          const payload = { sandbox: { outcome: "succeeded", settle_after_ms: 1 } }
          return yield* Effect.forEach(
            Array.from({ length: operations }),
            () => Effect.map(accept(identity, { payload }), ({ operation }) => operation.id)
          )
        }),
        services
      )
      const args = ["work", "--sandbox", `bank=${sandbox.url}`, "--provider-limit", flag]
      const env = { DATABASE_URL: urlOf(database) }
      yield* Effect.forEach(
        Array.from({ length: 4 }),
        () => launch(args, env, ({ stderr }) => stderr.includes("\"Working\"")),
        { concurrency: "unbounded" }
      )
      for (const id of ids) {
        yield* Effect.repeat(Effect.delay(ledger.show(id), "50 millis"), {
          until: ({ state }) => state === "succeeded"
        })
      }
      const receipts = yield* sandbox.record
      assert.sameMembers(receipts.map(({ key }) => key as string), [...ids])
      const arrivals = (yield* sandbox.arrivals).map(({ at }) => at)
      assert.isAtLeast(arrivals.length, 2 * operations)
      const windows = arrivals.map((from, first) => ({
        from,
        count: arrivals.slice(first).filter((at) => at - from < interval).length
      }))
      for (const { count, from } of windows) {
        const longest = Math.max(
          limit.slack - 1,
          ...stops.filter((stop) => stop.to >= from && stop.from <= from + interval).map((stop) =>
            limit.slack + stop.to - stop.from
          )
        )
        assert.isAtMost(count, mostWith(longest), `from ${from}`)
      }
      const most = Math.max(...windows.map(({ count }) => count))
      const seconds = (arrivals.at(-1)! - arrivals[0]!) / 1000
      process.stdout.write(
        `${arrivals.length} requests in ${seconds.toFixed(1)} s, ${most} at most in a second; ${stops.length} stops\n`
      )
    })).pipe(Effect.provide(Platform)))
})
