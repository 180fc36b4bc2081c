/**
 * A worker that is asked to stop finishes its submissions within its timeouts. The tests stop it on the test's clock.
 */
import { Duration, Effect } from "effect"
import { defaultPolicy } from "../../../../src/submission/SubmissionPolicy.ts"
import * as w from "../../../fixtures/submission/WorkerStories.ts"

const drainTimeout = Duration.seconds(10)
const drains = w.policy({ drainTimeout })
const told = (finished: number, returned: number, interrupted: number) =>
  w.logged("Stopped", [["INFO", { finished, returned, interrupted }]])

w.tell("A worker that is asked to stop", {
  "waits for running submissions, and for nothing else, and claims nothing more": [
    [w.answers(w.slowly("5 seconds")), w.accept(3), w.start(), w.pass("1 second"), w.stopping, w.pass("1 second")],
    [w.accept(), w.pass("1 minute"), w.stopped(4000), w.counts({ submitted: 3, accepted: 1 }), told(3, 0, 0)]
  ],
  "records submissions that are unfinished at the drain timeout as indeterminate": [
    [drains, w.answers(Effect.never), w.accept(), w.start(), w.pass("1 second"), w.stopping, w.pass("1 minute")],
    [w.stopped(10_000), w.went("submitting indeterminate"), told(0, 0, 1)],
    w.evidence({ by: "submission", reason: "the worker was stopped while it was sending" })
  ],
  "returns operations that wait between two attempts, and another worker sends them": [
    [w.noCircuit, w.answers(w.refused), w.accept(), w.start(), w.pass("10 seconds"), w.mark],
    [w.stopping, w.settle, w.stopped(0), w.sentSince(0)],
    w.returned("the worker was stopped between two attempts; nothing was sent: connection refused"),
    [told(0, 1, 0), w.answers(w.accepts), w.start(), w.pass("10 seconds"), w.sentSince(1)],
    w.went("submitting submitted")
  ],
  "still sends the operations that it is claiming": [
    [w.lateAnswer("claim", "2 seconds"), w.accept(3), w.start(), w.pass("1 second"), w.stopping, w.pass("5 seconds")],
    [w.join, w.sent(3), w.is("submitted")]
  ],
  "waits for a hanging claim no longer than the store timeout": [
    [w.hangs("claim"), w.start(), w.pass("1 second"), w.stopping, w.pass("5 minutes")],
    w.stopped(Duration.toMillis(defaultPolicy.storeTimeout))
  ],
  "waits for an unavailable store no longer than for a submission": [
    [drains, w.loses("record"), w.accept(), w.start(), w.pass("2 seconds"), w.stopping],
    [w.pass(drainTimeout), w.pass("storeTimeout"), w.pass("3 seconds"), w.join],
    // The rescuer takes it over.
    w.is("submitting")
  ]
})
