/** Each end of a submission leads to one state with its evidence, or returns the claim. The tests list every end. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Exit } from "effect"
import { AuthorizationRevoked, PayloadAltered, PayloadUnreadable } from "../../../../src/domain/Submission.ts"
import { type AttemptError, type Settlement, settlementOf } from "../../../../src/submission/attempts/Settlement.ts"
import {
  namesNothing,
  NotSent,
  type SubmissionAnswer,
  SubmissionAnswer as Answer,
  Uncertain
} from "../../../../src/submission/providers/ProviderAdapter.ts"
import { operationOf } from "../../../fixtures/submission/HttpProviderServer.ts"
import { acknowledged, reference } from "../../../fixtures/submission/World.ts"

type Ending = Exit.Exit<SubmissionAnswer, AttemptError>

const operation = operationOf()
const notSent = new NotSent({ reason: "refused" })
const local = new NotSent({ reason: "no credentials", isLocal: true })
const uncertain = new Uncertain({ reason: "reset" })
const interrupted = Exit.failCause(Cause.interrupt(1))
const combined = (...causes: ReadonlyArray<Cause.Cause<NotSent | Uncertain>>) =>
  Exit.failCause(causes.reduce((all, cause) => Cause.combine(all, cause)))

/** The settlement of an end that does not return the claim. */
const settled = (exit: Ending): Settlement => {
  const end = settlementOf(operation, exit, true)
  assert.strictEqual(end._tag, "Settlement")
  return end as Settlement
}

describe("The end of a submission", () => {
  const endings: ReadonlyArray<readonly [name: string, exit: Ending, isSending: boolean, state: string]> = [
    ["an acknowledgement", Exit.succeed(acknowledged), true, "submitted"],
    ["a success", Exit.succeed(Answer.Succeeded({ names: namesNothing, evidence: null })), true, "succeeded"],
    [
      "a refusal",
      Exit.succeed(Answer.Rejected({ code: "no", names: namesNothing, evidence: null })),
      true,
      "failed"
    ],
    ["a provider that could not be reached", Exit.fail(notSent), false, "failed"],
    ["a provider that took nothing", Exit.fail(new NotSent({ reason: "429", isRefused: true })), false, "failed"],
    ["a request that can never be sent", Exit.fail(new NotSent({ reason: "-", isPermanent: true })), false, "failed"],
    ["a local failure", Exit.fail(local), false, "returned"],
    ["a refusal that an operator can repair", Exit.fail(new NotSent({ ...local, isRefused: true })), false, "returned"],
    [
      "a request that no version of the adapter can encode",
      Exit.fail(new NotSent({ ...local, isPermanent: true })),
      false,
      "failed"
    ],
    ["doubt", Exit.fail(uncertain), true, "indeterminate"],
    ["a payload that cannot be read", Exit.fail(new PayloadUnreadable()), false, "failed"],
    ["a payload that was not accepted", Exit.fail(new PayloadAltered()), false, "failed"],
    ["an authorization that ended", Exit.fail(new AuthorizationRevoked()), false, "failed"],
    ["a defect while sending", Exit.die(new Error("x")), true, "indeterminate"],
    ["a defect before anything was sent", Exit.die(new Error("x")), false, "returned"],
    ["an interruption while sending", interrupted, true, "indeterminate"],
    ["an interruption between two attempts", interrupted, false, "returned"],
    ["doubt and an interruption", combined(Cause.fail(uncertain), Cause.interrupt(1)), true, "indeterminate"],
    ["an interruption and a defect", combined(Cause.interrupt(1), Cause.die("x")), true, "indeterminate"]
  ]
  it.each(endings)("is recorded with its state and evidence, or returns the claim: %s", (_, exit, isSending, state) => {
    const end = settlementOf(operation, exit, isSending)
    if (end._tag === "ClaimReturn") return assert.strictEqual(state, "returned")
    assert.strictEqual(end.outcome.state, state)
    assert.strictEqual(end.evidence["by"], "submission")
    assert.strictEqual(end.reference, state === "submitted" ? reference : null)
  })

  it("has the reference that the provider gave, also with a refusal", () => {
    const given = { names: { reference, operation_id: null }, evidence: { status: "any" } }
    const answers = [acknowledged, Answer.Succeeded(given), Answer.Rejected({ ...given, code: "no" })]
    assert.deepStrictEqual(
      answers.map((answer) => settled(Exit.succeed(answer)).reference),
      answers.map(() => reference)
    )
  })

  it("keeps an answer about another operation, which proves nothing, beside the reason", () => {
    const names = { reference, operation_id: "another" }
    const end = settled(Exit.succeed(Answer.Succeeded({ names, evidence: { status: "paid" } })))
    assert.deepInclude(end, { outcome: { state: "indeterminate" }, reference: null })
    assert.deepInclude(end.evidence, { by: "submission", answer: { status: "paid" } })
    assert.include(end.evidence["reason"], "names another operation")
  })

  it("counts as sent unless the opposite is proven", () => {
    const unsent = endings.filter(([, exit, isSending]) => {
      const end = settlementOf(operation, exit, isSending)
      return end._tag === "Settlement" && !end.isSent
    })
    assert.deepStrictEqual(unsent.map(([name]) => name), [
      "a provider that could not be reached",
      "a provider that took nothing",
      "a request that can never be sent",
      "a request that no version of the adapter can encode",
      "a payload that cannot be read",
      "a payload that was not accepted",
      "an authorization that ended"
    ])
  })

  it("has a failure that says what happened: only a request that never left is said not to be sent", () => {
    const failures = [
      notSent,
      new NotSent({ reason: "429", isRefused: true }),
      new NotSent({ reason: "-", isPermanent: true }),
      new NotSent({ reason: "-", isPermanent: true, isForbidden: true }),
      new AuthorizationRevoked()
    ]
    const messages = failures.map((error) => {
      const { outcome } = settled(Exit.fail(error))
      return outcome.state === "failed" ? `${outcome.failure.code}: ${outcome.failure.message}` : ""
    })
    assert.deepStrictEqual(messages, [
      "provider_unreachable: The provider could not be reached until it was too late to send.",
      "provider_unavailable: The provider answered that it did not take the request, until it was too late to send.",
      "request_unsendable: The request cannot be sent to its provider, and was not sent.",
      "not_permitted: The provider does not permit this operation to the account or to the gateway.",
      "authorization_revoked: The authorization ended before the provider took the operation; it will not be sent."
    ])
  })

  it("returns the claim with the reason of the adapter, and with only the name of a defect", () => {
    const reasons = [Exit.fail(local), Exit.die(new RangeError("Bearer hunter2")), interrupted].map((exit) => {
      const end = settlementOf(operation, exit, false)
      return end._tag === "ClaimReturn" ? end.reason : null
    })
    assert.deepStrictEqual(reasons, [
      "no credentials",
      "a defect: RangeError",
      "the worker was stopped before it sent anything"
    ])
  })

  it("keeps the provider's answer as evidence, and only the name of a defect", () => {
    assert.deepStrictEqual(settled(Exit.succeed(acknowledged)).evidence["answer"], { status: "pending" })
    const { evidence } = settled(Exit.die(new RangeError("Bearer hunter2")))
    assert.deepStrictEqual(evidence, { by: "submission", reason: "a defect: RangeError" })
  })
})
