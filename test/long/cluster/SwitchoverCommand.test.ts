/**
 * The command `switchover` waits for the promotion, and exits with 0 only if it released what it held. The tests run it as a process
 * on a `DATABASE_URL` with two hosts, and promote a real standby.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import { type Cluster, port, username } from "../../../src/node/embedded/Cluster.ts"
import { acceptSeveral, claimIds, issueAtNewProvider } from "../../fixtures/ledger/Queue.ts"
import { Queue } from "../../fixtures/ledger/QueueServices.ts"
import { copyAsStandby, newLedger, runServer, servicesOn, temporaryCluster } from "../../fixtures/postgres/OwnServer.ts"
import { launch, run } from "../../fixtures/processes/CommandLine.ts"

const urlOf = (...clusters: ReadonlyArray<Cluster>) =>
  `postgres:///postgres?user=${username}&port=${port}&host=${
    clusters.map(({ socketDirectory }) => encodeURIComponent(socketDirectory)).join(",")
  }`

const holds = ({ stderr }: { readonly stderr: string }) => stderr.includes("Promote the standby now")

/** A primary that can be stopped, with two accepted operations. */
const scene = Effect.gen(function*() {
  const primary = yield* newLedger
  const life = yield* Scope.make()
  yield* Effect.addFinalizer((exit) => Scope.close(life, exit))
  yield* Scope.provide(runServer(primary), life)
  const { grant: { provider }, ids } = yield* Effect.gen(function*() {
    const issued = yield* issueAtNewProvider()
    return { ...issued, ids: yield* acceptSeveral(issued.identity, 2) }
  }).pipe(Effect.provide(servicesOn(primary)))
  return { primary, provider, ids, stopPrimary: Scope.close(life, Exit.void) }
})

const claimed = (cluster: Cluster, provider: Parameters<typeof claimIds>[0]) =>
  Effect.provide(claimIds(provider), servicesOn(cluster))

describe("switchover", () => {
  it.live("waits for the promotion without a primary, releases what it held, and says what it did", () =>
    Effect.gen(function*() {
      const { ids, primary, provider, stopPrimary } = yield* scene
      const standby = yield* temporaryCluster
      const { child, output } = yield* launch(
        ["switchover", "--operator", "ada"],
        { DATABASE_URL: urlOf(primary, standby) },
        holds
      )
      const ended = once(child, "close")
      assert.deepStrictEqual([...yield* claimed(primary, provider)], [])
      yield* stopPrimary
      yield* copyAsStandby(primary, standby)
      yield* runServer(standby)
      // The standby answers, and the command still waits.
      assert.isNull(child.exitCode)
      yield* SqlClient.SqlClient.use((sql) => sql`SELECT pg_promote()`).pipe(Effect.provide(servicesOn(standby)))
      assert.deepStrictEqual((yield* Effect.promise(() => ended))[0], 0, output.stderr)
      assert.deepStrictEqual(JSON.parse(output.stdout), {
        from_timeline: 1,
        held: 2,
        timeline: 2,
        released: 2,
        still_held: 0,
        awaiting_approval: 0
      })
      assert.sameMembers([...yield* claimed(standby, provider)], [...ids])
    }).pipe(Effect.scoped))

  it.live("ends with 1 if no standby is promoted in time, and takes its holds back", () =>
    Effect.gen(function*() {
      const { ids, primary, provider } = yield* scene
      const { code, stderr, stdout } = yield* run(["switchover", "--promote-within", "1s"], {
        DATABASE_URL: urlOf(primary)
      })
      assert.deepStrictEqual([code, stdout], [1, ""])
      assert.include(
        stderr,
        "error: the timeline is 1 as before: no standby was promoted. 2 operations were released again"
      )
      assert.sameMembers([...yield* claimed(primary, provider)], [...ids])
    }).pipe(Effect.scoped))

  it.live("takes its holds back when it is stopped", () =>
    Effect.gen(function*() {
      const { ids, primary, provider } = yield* scene
      const { stop } = yield* launch(["switchover"], { DATABASE_URL: urlOf(primary) }, holds)
      assert.deepStrictEqual([...yield* claimed(primary, provider)], [])
      assert.strictEqual(yield* stop("SIGINT"), 0)
      assert.sameMembers([...yield* claimed(primary, provider)], [...ids])
    }).pipe(Effect.scoped))

  it.live("holds nothing while a worker runs, and names the worker", () =>
    Effect.gen(function*() {
      const { ids, primary, provider } = yield* scene
      yield* Effect.flatMap(Queue, ({ reportWorker }) =>
        reportWorker({ process_id: crypto.randomUUID(), worker_id: "db1", pauses: {}, clock_skew_ms: null })).pipe(
          Effect.provide(servicesOn(primary))
        )
      const { code, stderr } = yield* run(["switchover", "--drain-timeout", "1s"], { DATABASE_URL: urlOf(primary) })
      assert.strictEqual(code, 1)
      assert.match(stderr, /^error: workers are running: db1\. Stop them first\. [^\n]+\n$/)
      assert.sameMembers([...yield* claimed(primary, provider)], [...ids])
    }).pipe(Effect.scoped))
})
