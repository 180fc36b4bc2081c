/**
 * The lease of a status read lasts until its end is recorded, however slow the database is. The tests use the ledger in memory and the test's clock.
 */
import { Effect } from "effect"
import type { ProviderLimit } from "../../../../src/domain/ProviderLimit.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { succeeded } from "../../../fixtures/submission/World.ts"

const limit: ProviderLimit = { requests: 100, interval: "1 minute", burst: 40, slack: "30 seconds" }
const none = { permits: [], again: 50 }
const slowed = <A, E>(statement: Effect.Effect<A, E>) => Effect.tap(statement, () => Effect.sleep(2400))

w.tell("the lease of a status read", {
  ...w.each(
    [["without a limit", {}], ["with a limit", { limit }]] as const,
    ([name]) => `lasts until its end is recorded, ${name}, though statements take half of storeTimeout`,
    ([, limit]) => [
      [w.given(limit), w.finds(Effect.delay(Effect.succeed(succeeded), 14_900)), w.accept(4)],
      [w.begin(), w.pass("1 second", 30), w.join, w.is("submitted")],
      w.store((queue) => {
        let reservations = 0
        return {
          takeReads: (...args) => slowed(queue.takeReads(...args)),
          // The first statement finds no permit.
          reservePermits: (...args) =>
            slowed(
              ++reservations === 1
                ? Effect.succeed({ submissions: none, reads: none })
                : queue.reservePermits(...args)
            ),
          // Another transaction has locked the rows.
          recordAll: (records) => slowed(Effect.succeed(records.map(() => false))),
          record: (...args) => Effect.delay(queue.record(...args), 2400)
        }
      }),
      Array.from({ length: 60 }, () => [w.begin("reconcile"), w.pass("1 second")]),
      [w.is("succeeded"), w.read(4)]
    ]
  )
})
