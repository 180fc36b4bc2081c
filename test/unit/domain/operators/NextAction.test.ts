/**
 * Operators see who acts next on an operation, when, and why. Properties try combinations of state, hold, claim, consent, review and
 * time.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import * as fc from "fast-check"
import { isTerminal } from "../../../../src/domain/Operation.ts"
import { nextAction, type Situation } from "../../../../src/domain/operators/nextAction.ts"
import type {
  Hold,
  NextAction,
  OperationSchedule,
  OperationStanding
} from "../../../../src/domain/operators/OperatorView.ts"
import { bareSchedule } from "../../../fixtures/OperatorSchedule.ts"
import { specifiedStates } from "../../../fixtures/Specification.ts"

const now = DateTime.makeUnsafe("2026-01-01T12:00:00Z")
const past = DateTime.makeUnsafe("2026-01-01T11:00:00Z")
const future = DateTime.makeUnsafe("2026-01-01T13:00:00Z")
const later = DateTime.makeUnsafe("2026-01-01T14:00:00Z")

const schedule: OperationSchedule = { ...bareSchedule, due_at: past }
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
  lacks_key: false,
  schedule,
  standing,
  pause: null,
  question: null,
  answer: null,
  reversible_until: null,
  contradicted: false
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

type Expectation = readonly [string, Situation, by: NextAction["by"], at: DateTime.Utc | null, reason: string]

const when = (what: string) => ({
  is: (given: Situation) => ({
    acts: (by: NextAction["by"], at: DateTime.Utc | null, reason: string): Expectation => [what, given, by, at, reason]
  })
})

/** The situations that operators meet: who acts, when, and the reason, of which a part tells them apart. */
const expectations: ReadonlyArray<Expectation> = [
  when("a ready operation")
    .is(situation)
    .acts("worker", null, "It is ready."),
  when("a ready operation of a paused provider")
    .is({ ...situation, pause: "status 401" })
    .acts("worker", null, "paused: status 401."),
  when("a returned claim of a paused provider")
    .is(scheduled({ return_reason: "status 401", due_at: future }, { state: "submitting", pause: "status 401" }))
    .acts("worker", future, "The last worker sent nothing, and its provider is paused: status 401."),
  when("a returned claim of a provider that is paused for another cause")
    .is(scheduled({ return_reason: "no key", due_at: future }, { state: "submitting", pause: "status 401" }))
    .acts("worker", future, "The last worker sent nothing (no key). Its provider is paused: status 401."),
  when("an operation whose grant was revoked, of a paused provider")
    .is({ ...situation, standing: revoked, pause: "status 401" })
    .acts("worker", null, "the one that accepted it was revoked."),
  when("an operation that waits, with the consent back")
    .is(scheduled({ waiting: true, due_at: future }))
    .acts("worker", future, "the workers lack its payload key."),
  when("an operation whose grant lost a scope")
    .is({ ...situation, standing: { ...standing, may_send: false } })
    .acts("worker", null, "No live grant has all scopes of the grant that accepted it, and no other limits."),
  when("an operation with a fence, whose grant lost a scope")
    .is(
      scheduled({ due_at: future, fence_started_at: past, fencing_until: future }, {
        state: "indeterminate",
        standing: { ...standing, may_send: false }
      })
    )
    .acts(
      "reconciler",
      future,
      "It is repeated until it is certain. No live grant has all scopes of the grant that accepted it, and no other limits."
    ),
  when("an operation with an old fence")
    .is(
      scheduled({ due_at: future, fence_started_at: past, fencing_until: future }, {
        state: "indeterminate",
        question: "Did you pay?"
      })
    )
    .acts("operator", null, "Fences go on, but may never settle it."),
  when("a held operation that is not examined")
    .is(held({ kind: "failover", examined: false, releasable_from: null }))
    .acts("reconciler", null, "It cannot be released before the examination."),
  when("an operation that a failover and an operator hold")
    .is(held({ kind: "failover", examined: false, releasable_from: null, by_operator: true }))
    .acts(
      "reconciler",
      null,
      "may have lost a claim. An operator or a late report holds it, too. It cannot be released before"
    ),
  when("an operation that waits for an approval, and that an operator holds")
    .is(held({ kind: "approval", examined: false, releasable_from: null, by_operator: true }))
    .acts("operator", null, "An operator or a late report holds it, so an approval leaves it held."),
  when("an operation that was held before any claim")
    .is(held({ examined: false, releasable_from: null }, {}, { unsent: true }))
    .acts("operator", null, "An operator holds it, and it was never sent."),
  when("a held operation that is not examined, and that an operator holds")
    .is(held({ examined: false, releasable_from: null, by_operator: true }))
    .acts("reconciler", null, "An operator or a late report holds it. It cannot be released before the examination."),
  when("an examined operation that may still be sent")
    .is(held({ releasable_from: future }, { under_review: true }, { due_at: later }))
    .acts("operator", future, "Until then an earlier claim holder may send it, if there is one. Status reads go on."),
  when("an examined operation that cannot be sent any more")
    .is(held({}, { under_review: true, standing: revoked }))
    .acts(
      "operator",
      null,
      "Release it only if its provider never received it. Status reads wait. It has no live grant"
    ),
  when("a held operation that the provider has")
    .is(held({ releasable_from: null }, { acknowledged: true }, { due_at: future, reads: 2 }))
    .acts("reconciler", future, "Its provider received it, so it is never released."),
  when("a held operation that the provider has, before its examination")
    .is(held({ examined: false, releasable_from: null }, { acknowledged: true }))
    .acts("reconciler", null, "Its provider received it, so it is never released."),
  when("a claim that permits sending")
    .is(scheduled({ send_before: future, due_at: later }, { state: "submitting" }))
    .acts("worker", null, "If the worker is lost, the rescuer moves it to indeterminate at 2026-01-01T14:00:00.000Z."),
  when("a claim that permits sending to a provider that does not answer")
    .is(scheduled({ send_before: future, due_at: later }, { state: "submitting", pause: away }))
    .acts(
      "worker",
      null,
      "If a request has left, and no answer comes, it becomes indeterminate, and status reads settle it. If the worker never "
        + "connects until 2026-01-01T13:00:00.000Z, it ends as failed (provider_unreachable), never sent, or its claim is returned."
    ),
  when("a returned claim of a provider that does not answer")
    .is(scheduled({ return_reason: away, due_at: future }, { state: "submitting", pause: away }))
    .acts("worker", future, "ends the operation as failed (provider_unreachable), never sent."),
  when("a ready operation of a provider that does not answer")
    .is({ ...situation, pause: away })
    .acts("worker", null, "ends the operation as failed (provider_unreachable), never sent."),
  when("a claim that permits nothing any more")
    .is(scheduled({ send_before: past, due_at: later }, { state: "submitting" }))
    .acts("rescuer", later, "The worker may send it no more, and has recorded no outcome."),
  when("a claim by hand")
    .is(scheduled({ due_at: later }, { state: "submitting" }))
    .acts("rescuer", later, "claimed by hand"),
  when("a returned claim")
    .is(scheduled({ send_before: past, due_at: future, return_reason: "no key" }, { state: "submitting" }))
    .acts("worker", future, "The last worker sent nothing (no key)."),
  when("a returned claim whose payload key the last worker lacked")
    .is(scheduled({ send_before: past, return_reason: "status 401" }, { state: "submitting", lacks_key: true }))
    .acts("worker", null, "(status 401). The workers lack its payload key: do not cancel it, give them the key."),
  when("a returned claim from before a failover")
    .is(
      scheduled({ send_before: past, due_at: future, return_reason: "no key" }, {
        state: "submitting",
        is_of_other_timeline: true
      })
    )
    .acts("rescuer", null, "may have lost a later claim."),
  when("a submitted operation")
    .is(scheduled({ due_at: future, reads: 4 }, { state: "submitted" }))
    .acts("reconciler", future, "Its provider received it. The outcome is open."),
  when("an indeterminate operation")
    .is(scheduled({}, { state: "indeterminate" }))
    .acts("reconciler", null, "It may have been sent, so no worker sends it again."),
  when("an indeterminate operation with a question")
    .is(scheduled({ due_at: future }, { state: "indeterminate", under_review: true, question: "Did you pay 7?" }))
    .acts("operator", null, "Status reads go on, but may never settle it."),
  when("a submitted operation with a question, whose grant was revoked")
    .is(scheduled({}, { state: "submitted", question: "Did you pay 7?", standing: revoked }))
    .acts("operator", null, "Status reads wait. It has no live grant"),
  when("a held operation with a question")
    .is(held({ releasable_from: null }, { acknowledged: true, question: "Did you pay 7?" }))
    .acts("operator", null, "A hold was placed. Status reads go on"),
  when("a settled operation")
    .is(scheduled({ due_at: null }, { state: "succeeded" }))
    .acts("none", null, "It is settled."),
  when("a success that its provider may reverse")
    .is(scheduled({ due_at: future }, { state: "succeeded", reversible_until: later }))
    .acts("reconciler", future, "It is settled. Its provider may reverse the success until 2026-01-01T14:00:00.000Z."),
  when("a success that its provider may reverse, whose grant was revoked")
    .is(scheduled({ due_at: future }, { state: "succeeded", reversible_until: later, standing: revoked }))
    .acts(
      "reconciler",
      future,
      "until 2026-01-01T14:00:00.000Z. It has no live grant: the one that accepted it was revoked."
    ),
  when("a success that its provider may reverse no more, before the last read")
    .is(scheduled({}, { state: "succeeded", reversible_until: past }))
    .acts(
      "reconciler",
      null,
      "Its provider might reverse the success until 2026-01-01T11:00:00.000Z. A clear answer ends the reads."
    )
]

const standings: fc.Arbitrary<OperationStanding> = fc.tuple(
  fc.record({
    client_active: fc.boolean(),
    provider_connected: fc.boolean(),
    grant: fc.constantFrom("live", "expired", "revoked")
  }),
  fc.constantFrom({ may_send: true, may_read: true }, { may_send: false, may_read: true }, {
    may_send: false,
    may_read: false
  })
).map(([grant, may]) => ({ ...grant, ...may }))

const holds: fc.Arbitrary<Hold | null> = fc.oneof(
  fc.constantFrom<Hold | null>(null, { kind: "approval", examined: false, releasable_from: null }),
  fc.record({
    kind: fc.constantFrom("placed", "failover"),
    examined: fc.constant(true),
    releasable_from: fc.constantFrom(null, past, future)
  }),
  fc.record({
    kind: fc.constantFrom("placed", "failover"),
    examined: fc.constant(false),
    releasable_from: fc.constant(null)
  })
)

/** Any situation that the tables can hold. */
const situations: fc.Arbitrary<Situation> = fc.constantFrom(...specifiedStates).chain((state) => {
  const [isAccepted, isSubmitting] = [state === "accepted", state === "submitting"]
  const isOpen = !isTerminal(state)
  /** The first of the values where the others cannot be. */
  const among = <A>(isPossible: boolean, first: A, ...others: ReadonlyArray<A>) =>
    fc.constantFrom(...isPossible ? [first, ...others] : [first])
  return fc.record({
    under_review: among(isOpen, false, true),
    acknowledged: among(isAccepted, false, true),
    is_of_other_timeline: among(isSubmitting, false, true),
    lacks_key: among(isAccepted || isSubmitting, false, true),
    standing: standings,
    reversible_until: among(state === "succeeded", null, past, future),
    contradicted: among(state === "failed" || state === "cancelled", false, true),
    pause: among(isAccepted || isSubmitting, null, "no key", away),
    due_at: isOpen ? fc.constantFrom(past, now, future) : fc.constant(null),
    send_before: among(isSubmitting, null, past, now, future),
    waiting: among(isOpen && !isSubmitting, false, true),
    hold: isAccepted ? holds : fc.constant(null),
    return_reason: among(isSubmitting, null, "no key")
  }).map(({ due_at, hold, return_reason, send_before, waiting, ...rest }): Situation => {
    const fence_started_at = state === "indeterminate" && waiting ? past : null
    return {
      ...rest,
      state,
      schedule: {
        ...schedule,
        due_at,
        send_before,
        waiting,
        hold,
        return_reason: send_before === null ? null : return_reason,
        fence_started_at,
        fencing_until: fence_started_at
      },
      question: null,
      answer: null
    }
  })
})

const holdsForAll = (check: (given: Situation) => void) => fc.assert(fc.property(situations, check), { numRuns: 2000 })

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

  it("of a question about another account sets the account back first, names both accounts, and waits with the reads", () => {
    const about = (over: Partial<OperationSchedule>) =>
      nextAction(
        scheduled(over, {
          state: "indeterminate",
          question: "Did you pay 7?",
          answer: "not asked, because it was sent to the account first, and the settings name second"
        }),
        now
      )
    const first =
      "Set the address and the account back: it was sent to the account first, and the settings name second. Or "
    const { action, reason } = about({})
    assert.strictEqual(action, `${first}ask the provider, and record its answer: Did you pay 7?`)
    assert.strictEqual(reason, "It may have been sent, so no worker sends it again. Status reads wait.")
    assert.include(about({ fence_started_at: past, fencing_until: past }).action, `${first}cancel the order`)
  })

  it("of a claim names its worker, and says neither that it was sent nor that it was not", () => {
    const claimed = (claimed_by: string | null) =>
      nextAction(scheduled({ claimed_by, send_before: future, due_at: later }, { state: "submitting" }), now).action
    const open = "has claimed it to send it. Whether its request has left is open until an outcome is recorded."
    assert.strictEqual(claimed("w-1"), `Worker w-1 ${open}`)
    assert.strictEqual(claimed(null), `A worker ${open}`)
  })

  it("of any operation is in the future or open, is told in short sentences, and none is left only when it is settled", () => {
    holdsForAll((given) => {
      const { action, at, by, reason } = nextAction(given, now)
      if (at !== null) assert.isAbove(at.epochMilliseconds, now.epochMilliseconds)
      assert.strictEqual(
        by === "none",
        isTerminal(given.state) && given.reversible_until === null && !given.contradicted
      )
      for (const text of [action, reason]) {
        assert.match(text, /^[A-Z].*\.$/)
        for (const sentence of text.split(/(?<=[.:]) /)) assert.isAtMost(sentence.split(" ").length, 25, sentence)
      }
    })
  })

  it("of any operation under review is the one without it, and its reason names the review", () => {
    holdsForAll((given) => {
      if (isTerminal(given.state) && given.reversible_until === null) return
      const { reason: plain, ...base } = nextAction({ ...given, under_review: false }, now)
      const { reason, ...reviewed } = nextAction({ ...given, under_review: true }, now)
      if (base.by !== "operator") assert.strictEqual(reason, `It is under review. ${plain}`)
      assert.deepStrictEqual(reviewed, base)
    })
  })

  it("names each reason for which a worker or a reconciler leaves the operation", () => {
    holdsForAll((given) => {
      const { hold } = given.schedule
      const isSending = given.state === "accepted" ? hold === null : given.schedule.return_reason !== null
      const isReading = given.state === "submitted" || given.reversible_until !== null ||
        given.state === "indeterminate" || hold?.examined === true
      if (given.is_of_other_timeline || !isSending && !isReading) return
      const { reason } = nextAction(given, now)
      const { client_active, may_read, may_send, provider_connected } = given.standing
      assert.strictEqual(reason.includes("client is inactive"), !client_active)
      assert.strictEqual(reason.includes("provider is disconnected"), !provider_connected)
      const mayGoOn = isSending || given.schedule.fence_started_at !== null ? may_send : may_read
      assert.strictEqual(/[nN]o live grant/.test(reason), !mayGoOn)
    })
  })
})
