/** Each end of a submission leads to one state, its evidence and a safe public failure. The tests list every end. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Exit } from "effect"
import { PayloadAltered, PayloadUnreadable } from "../../../src/domain/Submission.ts"
import {
  namesNothing,
  NotSent,
  type SubmissionAnswer,
  SubmissionAnswer as Answer,
  Uncertain
} from "../../../src/submission/ProviderAdapter.ts"
import { publicFailure, settlementOf } from "../../../src/submission/Settlement.ts"
import { operationOf } from "../../fixtures/submission/HttpProviderServer.ts"
import { acknowledged, reference } from "../../fixtures/submission/World.ts"

type Ending = Exit.Exit<SubmissionAnswer, NotSent | Uncertain | PayloadUnreadable | PayloadAltered>

const { id } = operationOf()
const notSent = new NotSent({ reason: "refused" })
const uncertain = new Uncertain({ reason: "reset" })
const interrupted = Exit.failCause(Cause.interrupt(1))
const combined = (...causes: ReadonlyArray<Cause.Cause<NotSent | Uncertain>>) =>
  Exit.failCause(causes.reduce((all, cause) => Cause.combine(all, cause)))

describe("The end of a submission", () => {
  const endings: ReadonlyArray<readonly [name: string, exit: Ending, isSending: boolean, state: string]> = [
    ["an acknowledgement", Exit.succeed(acknowledged), true, "submitted"],
    ["a success", Exit.succeed(Answer.Succeeded({ names: namesNothing, evidence: null })), true, "succeeded"],
    [
      "a refusal",
      Exit.succeed(Answer.Rejected({ code: "no", message: "No.", names: namesNothing, evidence: null })),
      true,
      "failed"
    ],
    ["proof that nothing was sent", Exit.fail(notSent), true, "failed"],
    ["doubt", Exit.fail(uncertain), true, "indeterminate"],
    ["a payload that cannot be read", Exit.fail(new PayloadUnreadable()), false, "failed"],
    ["a payload that was not accepted", Exit.fail(new PayloadAltered()), false, "failed"],
    ["a defect while sending", Exit.die(new Error("x")), true, "indeterminate"],
    ["a defect before anything was sent", Exit.die(new Error("x")), false, "failed"],
    ["an interruption while sending", interrupted, true, "indeterminate"],
    ["an interruption between two attempts", interrupted, false, "failed"],
    ["doubt and an interruption", combined(Cause.fail(uncertain), Cause.interrupt(1)), true, "indeterminate"],
    ["an interruption and a defect", combined(Cause.interrupt(1), Cause.die("x")), true, "indeterminate"]
  ]
  it.each(endings)("is recorded with its state and evidence: %s", (_, exit, isSending, state) => {
    const settlement = settlementOf(id, exit, isSending)
    assert.strictEqual(settlement.outcome.state, state)
    assert.strictEqual(settlement.evidence["by"], "submission")
    assert.strictEqual(settlement.reference, state === "submitted" ? reference : null)
  })

  it("counts as sent unless the opposite is proven", () => {
    const unsent = endings.filter(([, exit, isSending]) => !settlementOf(id, exit, isSending).isSent).map(([name]) =>
      name
    )
    assert.deepStrictEqual(unsent, [
      "proof that nothing was sent",
      "a payload that cannot be read",
      "a payload that was not accepted",
      "a defect before anything was sent",
      "an interruption between two attempts"
    ])
  })

  it("does not blame the provider for local failures", () => {
    const messages = [notSent, new NotSent({ reason: "no credentials", isLocal: true })].map((error) => {
      const { outcome } = settlementOf(id, Exit.fail(error), true)
      assert.deepInclude(outcome, { state: "failed" })
      return outcome.state === "failed" ? `${outcome.failure.code}: ${outcome.failure.message}` : ""
    })
    assert.deepStrictEqual(messages, [
      "provider_unreachable: The provider could not be reached; nothing was sent.",
      "provider_unreachable: The operation could not be sent in time; nothing was sent."
    ])
  })

  it("keeps the provider's answer as evidence, and only the name of a defect", () => {
    assert.deepStrictEqual(settlementOf(id, Exit.succeed(acknowledged), true).evidence["answer"], { status: "pending" })
    const { evidence } = settlementOf(id, Exit.die(new RangeError("Bearer hunter2")), true)
    assert.deepStrictEqual(evidence, { by: "submission", reason: "a defect: RangeError" })
  })
})

describe("The failure that becomes public", () => {
  it("has the provider's own code and message, if they can be published", () => {
    const failure = { code: "insufficient_funds", message: "Too little." }
    assert.deepStrictEqual(publicFailure({ ...failure, internal: "db-7" } as typeof failure), failure)
  })

  it.each([
    ["a code in another alphabet", { code: "E-51", message: "No." }],
    ["no code", { code: "", message: "No." }],
    ["no message", { code: "declined", message: "" }],
    ["a message that is too long", { code: "declined", message: "x".repeat(1025) }],
    ["text that cannot be stored", { code: "declined", message: "\0" }]
  ])("has the gateway's own text for %s", (_, given) => {
    assert.strictEqual(publicFailure(given).code, "provider_rejected")
  })
})
