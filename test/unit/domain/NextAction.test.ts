/**
 * Operators see who acts next on an operation, when, and why. The tests go through every combination of state, hold, claim,
 * consent, review and time.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import { isTerminal } from "../../../src/domain/Operation.ts"
import { nextAction, type Situation } from "../../../src/domain/operators/nextAction.ts"
import type {
  Hold,
  NextAction,
  OperationSchedule,
  OperationStanding
} from "../../../src/domain/operators/OperatorView.ts"
import { specifiedStates } from "../../fixtures/Specification.ts"

const now = DateTime.makeUnsafe("2026-01-01T12:00:00Z")
const past = DateTime.makeUnsafe("2026-01-01T11:00:00Z")
const future = DateTime.makeUnsafe("2026-01-01T13:00:00Z")
const later = DateTime.makeUnsafe("2026-01-01T14:00:00Z")

const schedule: OperationSchedule = {
  due_at: past,
  waiting: false,
  send_before: null,
  claimed_by: null,
  return_reason: null,
  reads: 0,
  reviewed_at: null,
  fence_started_at: null,
  fencing_until: null,
  hold: null,
  unsent: false
}
const standing: OperationStanding = {
  client_active: true,
  provider_connected: true,
  grant: "live",
  may_send: true,
  may_read: true
}
const situation: Situation = {
  state: "accepted",
  under_review: false,
  acknowledged: false,
  is_of_other_timeline: false,
  schedule,
  standing,
  pause: null,
  question: null
}

const scheduled = (over: Partial<OperationSchedule>, rest: Partial<Situation> = {}): Situation => ({
  ...situation,
  ...rest,
  schedule: { ...schedule, ...over }
})

const held = (hold: Partial<Hold>, rest: Partial<Situation> = {}, over: Partial<OperationSchedule> = {}) =>
  scheduled({ hold: { kind: "placed", examined: true, releasable_from: past, ...hold }, ...over }, rest)

const away =
  "it did not answer several times in a row, so its circuit is open: the connection was refused (ECONNREFUSED): bank:4999"

const revoked: OperationStanding = { ...standing, grant: "revoked", may_send: false, may_read: false }

/** The situations that operators meet: who acts, when, and the reason, of which a part tells them apart. */
const expectations: ReadonlyArray<readonly [string, Situation, NextAction["by"], DateTime.Utc | null, reason: string]> =
  [
    ["a ready operation", situation, "worker", null, "It is ready."],
    [
      "a ready operation of a paused provider",
      { ...situation, pause: "status 401" },
      "worker",
      null,
      "paused: status 401."
    ],
    [
      "a returned claim of a paused provider",
      scheduled({ return_reason: "status 401", due_at: future }, { state: "submitting", pause: "status 401" }),
      "worker",
      future,
      "The last worker sent nothing, and its provider is paused: status 401."
    ],
    [
      "a returned claim of a provider that is paused for another cause",
      scheduled({ return_reason: "no key", due_at: future }, { state: "submitting", pause: "status 401" }),
      "worker",
      future,
      "The last worker sent nothing (no key). Its provider is paused: status 401."
    ],
    [
      "an operation whose grant was revoked, of a paused provider",
      { ...situation, standing: revoked, pause: "status 401" },
      "worker",
      null,
      "the one that accepted it was revoked."
    ],
    [
      "an operation that waits, with the consent back",
      scheduled({ waiting: true, due_at: future }),
      "worker",
      future,
      "the workers lack its payload key."
    ],
    [
      "an operation whose grant lost a scope",
      { ...situation, standing: { ...standing, may_send: false } },
      "worker",
      null,
      "No live grant has all scopes of the grant that accepted it."
    ],
    [
      "an operation with a fence, whose grant lost a scope",
      scheduled({ due_at: future, fence_started_at: past, fencing_until: future }, {
        state: "indeterminate",
        standing: { ...standing, may_send: false }
      }),
      "reconciler",
      future,
      "It is repeated until it is certain. No live grant has all scopes of the grant that accepted it."
    ],
    [
      "an operation with an old fence",
      scheduled({ due_at: future, fence_started_at: past, fencing_until: future }, {
        state: "indeterminate",
        question: "Did you pay?"
      }),
      "operator",
      null,
      "Fences go on, but may never settle it."
    ],
    [
      "a held operation that is not examined",
      held({ kind: "failover", examined: false, releasable_from: null }),
      "reconciler",
      null,
      "It cannot be released before the examination."
    ],
    [
      "an operation that was held before any claim",
      held({ examined: false, releasable_from: null }, {}, { unsent: true }),
      "operator",
      null,
      "No worker had claimed it, so it was never sent."
    ],
    [
      "an examined operation that may still be sent",
      held({ releasable_from: future }, { under_review: true }, { due_at: later }),
      "operator",
      future,
      "Until then an earlier claim holder may send it, if there is one. Status reads go on."
    ],
    [
      "an examined operation that cannot be sent any more",
      held({}, { under_review: true, standing: revoked }),
      "operator",
      null,
      "Release it only if its provider never received it. Status reads wait. It has no live grant"
    ],
    [
      "a held operation that the provider has",
      held({ releasable_from: null }, { acknowledged: true }, { due_at: future, reads: 2 }),
      "reconciler",
      future,
      "Its provider received it, so it is never released."
    ],
    [
      "a held operation that the provider has, before its examination",
      held({ examined: false, releasable_from: null }, { acknowledged: true }),
      "reconciler",
      null,
      "Its provider received it, so it is never released."
    ],
    [
      "a claim that permits sending",
      scheduled({ send_before: future, due_at: later }, { state: "submitting" }),
      "worker",
      null,
      "If it is lost, the rescuer moves it to indeterminate at 2026-01-01T14:00:00.000Z."
    ],
    [
      "a claim that permits sending to a provider that does not answer",
      scheduled({ send_before: future, due_at: later }, { state: "submitting", pause: away }),
      "worker",
      null,
      "Unless the provider answers, the operation ends as failed (provider_unreachable) at 2026-01-01T13:00:00.000Z, never sent."
    ],
    [
      "a returned claim of a provider that does not answer",
      scheduled({ return_reason: away, due_at: future }, { state: "submitting", pause: away }),
      "worker",
      future,
      "ends the operation as failed (provider_unreachable), never sent."
    ],
    [
      "a ready operation of a provider that does not answer",
      { ...situation, pause: away },
      "worker",
      null,
      "ends the operation as failed (provider_unreachable), never sent."
    ],
    [
      "a claim that permits nothing any more",
      scheduled({ send_before: past, due_at: later }, { state: "submitting" }),
      "rescuer",
      later,
      "The worker may send it no more, and has recorded no outcome."
    ],
    ["a claim by hand", scheduled({ due_at: later }, { state: "submitting" }), "rescuer", later, "claimed by hand"],
    [
      "a returned claim",
      scheduled({ send_before: past, due_at: future, return_reason: "no key" }, { state: "submitting" }),
      "worker",
      future,
      "The last worker sent nothing (no key)."
    ],
    [
      "a returned claim from before a failover",
      scheduled({ send_before: past, due_at: future, return_reason: "no key" }, {
        state: "submitting",
        is_of_other_timeline: true
      }),
      "rescuer",
      null,
      "may have lost a later claim."
    ],
    [
      "a submitted operation",
      scheduled({ due_at: future, reads: 4 }, { state: "submitted" }),
      "reconciler",
      future,
      "Its provider received it. The outcome is open."
    ],
    [
      "an indeterminate operation",
      scheduled({}, { state: "indeterminate" }),
      "reconciler",
      null,
      "It may have been sent, so no worker sends it again."
    ],
    [
      "an indeterminate operation with a question",
      scheduled({ due_at: future }, { state: "indeterminate", under_review: true, question: "Did you pay 7?" }),
      "operator",
      null,
      "Status reads go on, but may never settle it."
    ],
    [
      "a submitted operation with a question, whose grant was revoked",
      scheduled({}, { state: "submitted", question: "Did you pay 7?", standing: revoked }),
      "operator",
      null,
      "Status reads wait. It has no live grant"
    ],
    [
      "a held operation with a question",
      held({ releasable_from: null }, { acknowledged: true, question: "Did you pay 7?" }),
      "operator",
      null,
      "A hold was placed. Status reads go on"
    ],
    ["a settled operation", scheduled({ due_at: null }, { state: "succeeded" }), "none", null, "It is settled."]
  ]

const both = [true, false]

/** Every situation that the tables can hold. */
const situations = function*(): Generator<Situation> {
  const holds: ReadonlyArray<Hold | null> = [
    null,
    ...(["placed", "failover"] as const).flatMap((kind) => [
      { kind, examined: false, releasable_from: null },
      { kind, examined: true, releasable_from: null },
      { kind, examined: true, releasable_from: past },
      { kind, examined: true, releasable_from: future }
    ]),
    { kind: "approval", examined: false, releasable_from: null }
  ]
  for (const state of specifiedStates) {
    for (const under_review of isTerminal(state) ? [false] : both) {
      for (const acknowledged of state === "accepted" ? both : [false]) {
        for (const is_of_other_timeline of state === "submitting" ? both : [false]) {
          for (const due_at of isTerminal(state) ? [null] : [past, now, future]) {
            for (const send_before of state === "submitting" ? [null, past, now, future] : [null]) {
              for (const waiting of isTerminal(state) || state === "submitting" ? [false] : both) {
                for (const hold of state === "accepted" ? holds : [null]) {
                  for (
                    const return_reason of state === "submitting" && send_before !== null
                      ? [null, "no key"]
                      : [null]
                  ) {
                    for (const consent of standings) {
                      for (
                        const pause of state === "accepted" || state === "submitting" ? [null, "no key", away] : [null]
                      ) {
                        const fence_started_at = state === "indeterminate" && waiting ? past : null
                        yield {
                          state,
                          under_review,
                          acknowledged,
                          is_of_other_timeline,
                          standing: consent,
                          schedule: {
                            ...schedule,
                            due_at,
                            send_before,
                            waiting,
                            hold,
                            return_reason,
                            fence_started_at,
                            fencing_until: fence_started_at
                          },
                          pause,
                          question: null
                        }
                      }
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}

const standings: ReadonlyArray<OperationStanding> = both.flatMap((client_active) =>
  both.flatMap((provider_connected) =>
    (["live", "expired", "revoked"] as const).flatMap((grant) =>
      [[true, true], [false, true], [false, false]].map(([may_send, may_read]) => ({
        client_active,
        provider_connected,
        grant,
        may_send: may_send!,
        may_read: may_read!
      }))
    )
  )
)

describe("the next action", () => {
  it.each(expectations)("of %s is as expected", (_, given, by, at, why) => {
    const { action, pause, reason, ...who } = nextAction(given, now)
    assert.deepStrictEqual(who, { by, at })
    assert.include(reason, why)
    if (pause !== undefined) assert.include(reason, `paused: ${given.pause}.`)
    const [, read] = /\(read (\d+)\)/.exec(action) ?? []
    if (read !== undefined) assert.strictEqual(Number(read), given.schedule.reads + 1)
    if (given.question !== null) assert.include(action, `Ask the provider, and record its answer: ${given.question}`)
    const { fencing_until } = given.schedule
    if (given.question !== null && fencing_until !== null) {
      assert.include(
        action,
        `To record failed, ask a minute or more after ${DateTime.formatIso(fencing_until)}, which each fence moves`
      )
    }
  })

  it("of a claim names its worker, which may have sent it, and never tells that a worker will send it", () => {
    const claimed = (claimed_by: string | null) =>
      nextAction(scheduled({ claimed_by, send_before: future, due_at: later }, { state: "submitting" }), now).action
    assert.strictEqual(claimed("w-1"), "Worker w-1 has claimed it and may have sent it. It records the outcome.")
    assert.strictEqual(claimed(null), "A worker has claimed it and may have sent it. It records the outcome.")
  })

  it("of any operation is in the future or open, is told in short sentences, and none is left only when it is settled", () => {
    let count = 0
    const texts = new Set<string>()
    for (const given of situations()) {
      count++
      const { action, at, by, reason } = nextAction(given, now)
      texts.add(action).add(reason)
      if (at !== null && at.epochMilliseconds <= now.epochMilliseconds) assert.fail(JSON.stringify(given))
      if ((by === "none") !== isTerminal(given.state)) assert.fail(JSON.stringify(given))
    }
    for (const text of texts) {
      assert.match(text, /^[A-Z].*\.$/)
      for (const sentence of text.split(/(?<=[.:]) /)) assert.isAtMost(sentence.split(" ").length, 25, sentence)
    }
    assert.isAbove(count, 10_000)
  })

  it("of any operation under review is the one without it, and its reason names the review", () => {
    for (const given of situations()) {
      if (isTerminal(given.state)) continue
      const base = nextAction({ ...given, under_review: false }, now)
      const { reason, ...reviewed } = nextAction({ ...given, under_review: true }, now)
      const isNamed = base.by === "operator" ||
        reason === `It is under review. ${base.reason}`
      const isSame = reviewed.by === base.by && reviewed.action === base.action && reviewed.at === base.at
      if (!isNamed || !isSame) assert.fail(JSON.stringify(given))
    }
  })

  it("names each reason for which a worker or a reconciler leaves the operation", () => {
    for (const given of situations()) {
      const { hold } = given.schedule
      const isSending = given.state === "accepted" ? hold === null : given.schedule.return_reason !== null
      const isReading = given.state === "submitted" || given.state === "indeterminate" || hold?.examined === true
      if (given.is_of_other_timeline || !isSending && !isReading) continue
      const { reason } = nextAction(given, now)
      const { client_active, may_read, may_send, provider_connected } = given.standing
      const isTold = reason.includes("client is inactive") === !client_active
        && reason.includes("provider is disconnected") === !provider_connected
        && /no live grant|No live grant/.test(reason) ===
          (isSending || given.schedule.fence_started_at !== null ? !may_send : !may_read)
      if (!isTold) assert.fail(`${JSON.stringify(given)}: ${reason}`)
    }
  })
})
