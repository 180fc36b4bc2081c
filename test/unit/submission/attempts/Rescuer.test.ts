/** The rescuer moves stale claims to `indeterminate`, and never sends. The tests abandon claims on the test's clock. */
import { Duration } from "effect"
import { Rescuer } from "../../../../src/submission/attempts/Rescuer.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"

/** Claims operations and abandons them, as a worker does that dies. */
const claimAndDie = (count = 1) => [w.accept(count), w.lostAnswer("claim"), w.work(0), w.heals]
const milli = Duration.millis(1)

w.tell("A process", {
  "ends approvals in time, and begins reviews of old operations, once a minute and also after a failure": [
    [w.losesFirst("expireApprovals", "reviewAged"), w.start(Rescuer.layer), w.pass("3 minutes")],
    [w.called("expireApprovals", 3), w.called("reviewAged", 3)]
  ]
})

w.tell("A claim whose holder died", {
  "becomes indeterminate once it is stale, and not a millisecond earlier": [
    [...claimAndDie(), w.passUntil("rescueAfter", milli), w.rescue(0), w.pass(milli), w.rescue(1)],
    w.went("submitting indeterminate"),
    w.evidence({
      by: "rescuer",
      reason: "the worker that claimed the operation did not record what became of it"
    }),
    w.rescue(0)
  ],
  "is found among any number of stale claims": [
    [...claimAndDie(100), ...claimAndDie(100), ...claimAndDie(50), w.pass("rescueAfter"), w.rescue(250)]
  ],
  "is found by polling, also after the store was unavailable": [
    [...claimAndDie(), w.loses("rescue"), w.start(Rescuer.layer), w.pass("rescueAfter"), w.pass("10 seconds")],
    [w.is("submitting"), w.heals, w.pass("rescueInterval"), w.is("indeterminate")]
  ]
})
