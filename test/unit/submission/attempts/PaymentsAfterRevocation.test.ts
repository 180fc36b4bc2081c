/**
 * After consent was revoked, a client deactivated or a provider disconnected, a worker starts no further attempt to
 * send. The tests revoke while a worker retries a provider that refuses connections.
 */
import { assert } from "@effect/vitest"
import { Duration, Effect } from "effect"
import * as w from "../../../fixtures/submission/WorkerStories.ts"
import { away } from "../../../fixtures/submission/World.ts"

const ways: ReadonlyArray<readonly [command: string, step: w.Step]> = [
  ["grants revoke", w.revoke],
  ["clients deactivate", ({ world: { grant, grants } }) => grants.setClientActive(grant.client_id, false)],
  [
    "providers disconnect",
    ({ world: { grant, grants } }) => grants.setProviderConnected(grant.provider_connection_id, false)
  ]
]
const once = w.answers(w.refused, w.accepts)
const isAsked = w.until(({ calls }) => calls["mayStillSend"] === 1)

w.tell("A payment whose provider refused connections", {
  ...w.each(
    ways,
    ([command]) => `fails after \`${command}\`, and no byte of it reaches the provider that comes up later`,
    ([, revoke]) => [
      [once, w.accept(), w.begin(), w.until(({ world }) => world.attempts.length === 1), revoke],
      [w.pass("sendWithin"), w.join, w.sent(1), w.went("submitting failed")],
      w.failed(
        "authorization_revoked",
        "The authorization ended before the provider took the operation; it will not be sent."
      )
    ]
  )
})

w.tell("Before a worker retries an operation", {
  "it asks the store each time, except before the first attempt after its claim": [
    w.store((queue, { calls, world }) => ({
      mayStillSend: (claim) => {
        assert.lengthOf(world.attempts, calls["mayStillSend"]!)
        return queue.mayStillSend(claim)
      }
    })),
    [w.answers(w.refused, w.refused, w.refused, w.accepts), w.accept(), w.workFor("30 seconds"), w.sent(4)],
    w.called("mayStillSend", 3)
  ],
  "it sends nothing while the store does not answer, and continues when the store answers again": [
    [w.loses("mayStillSend"), once, w.accept(), w.begin(), w.pass("10 seconds"), w.sent(1), w.heals],
    [w.pass("10 seconds"), w.join, w.sent(2), w.is("submitted")]
  ],
  ...w.each(
    [["does not answer", Effect.never], ["is unreachable", away]] as const,
    ([what]) => `the claim is returned by the send deadline if the store ${what} until then`,
    ([, answer]) => [
      [w.store({ mayStillSend: () => answer }), w.answers(w.refused), w.accept(), w.begin(), w.pass("sendWithin")],
      [w.pass("storeTimeout"), w.join, w.sent(1), w.returned(/^the database did not say in time/)]
    ]
  ),
  "a stop signal prevents another attempt, for every answer of the store": [
    [w.held("mayStillSend"), w.answers(w.refused), w.accept(), w.start(), w.pass("2 seconds"), isAsked, w.stopping],
    [
      w.pass("1 second"),
      w.release,
      w.pass("1 second"),
      w.join,
      w.sent(1),
      w.returned(/^the worker was stopped between two attempts/)
    ]
  ]
})

w.tell("A worker whose drain time ends while it asks", {
  "sends nothing, and returns the claim": [
    [w.policy({ drainTimeout: Duration.seconds(1) }), w.hangs("mayStillSend"), w.answers(w.refused), w.accept()],
    [w.start(), w.pass("2 seconds"), isAsked, w.stopping, w.pass("2 seconds"), w.join, w.sent(1)],
    w.returned("the worker was stopped before it sent anything")
  ]
})

w.tell("A claim that the store answers late", {
  "is not sent if consent was revoked meanwhile": [
    [w.lateAnswer("claim", "10 seconds"), w.accept(), w.begin(), w.settle, w.is("submitting"), w.revoke],
    [w.pass("11 seconds"), w.join, w.sent(0), w.failed("authorization_revoked")],
    w.evidence({
      by: "submission",
      reason: "no live grant, active client and connected provider allowed the operation any more"
    })
  ]
})
