/** The column "next" of `operations list`: who acts, when, and what an operation waits for. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import { nextText } from "../../../../src/cli/operations/list.ts"
import { pauseReasons } from "../../../../src/domain/operators/FiguresForm.ts"
import { nextAction, type Situation } from "../../../../src/domain/operators/nextAction.ts"
import { bareSchedule } from "../../../fixtures/OperatorSchedule.ts"

const now = DateTime.makeUnsafe("2026-01-31T12:00:00Z")
const after = (seconds: number) => DateTime.makeUnsafe(now.epochMilliseconds + seconds * 1000)

const situation: Situation = {
  state: "accepted",
  under_review: false,
  acknowledged: false,
  is_of_other_timeline: false,
  lacks_key: false,
  schedule: { ...bareSchedule, due_at: after(-1) },
  standing: { client_active: true, provider_connected: true, grant: "live", may_send: true, may_read: true },
  pause: null,
  question: null,
  answer: null,
  reversible_until: null,
  contradicted: false
}

const shown = (
  { schedule, ...given }: Partial<Omit<Situation, "schedule">> & { schedule?: Partial<Situation["schedule"]> }
) => {
  const whole = { ...situation, ...given, schedule: { ...situation.schedule, ...schedule } }
  return nextText({ state: whole.state, schedule: whole.schedule, next: nextAction(whole, now) }, now)
}

describe("The next step of an operation in a list", () => {
  it("is the component, and when it acts", () => {
    assert.strictEqual(shown({}), "worker")
    assert.strictEqual(shown({ state: "submitted", schedule: { due_at: after(40) } }), "reconciler in 40s")
  })

  it("names the pause, without the words of its kind", () => {
    const pauses = [
      [`${pauseReasons.credentials}: status 401`, "paused: status 401"],
      [`${pauseReasons.undeclared}: status 404: POST /x`, "paused: status 404: POST /x"],
      ["no credentials: VaultError", "paused: no credentials: VaultError"],
      [pauseReasons.circuit, `paused: ${pauseReasons.circuit}`]
    ] as const
    for (const [pause, expected] of pauses) {
      assert.strictEqual(shown({ pause }), expected)
      const schedule = { return_reason: pause, send_before: after(-9), due_at: after(9) }
      assert.strictEqual(shown({ state: "submitting", pause, schedule }), expected)
    }
  })

  it("of a claim tells when the rescuer comes, and at an outage until when it may be sent", () => {
    const schedule = { send_before: after(12), due_at: after(72) }
    assert.strictEqual(shown({ state: "submitting", schedule }), "worker, or rescuer in 1m12s")
    const pause = `${pauseReasons.circuit}: the connection was refused`
    assert.strictEqual(
      shown({ state: "submitting", pause, schedule }),
      "worker tries to send it, ends in 12s"
    )
    assert.strictEqual(
      shown({ state: "submitting", schedule: { ...schedule, send_before: after(-1) } }),
      "rescuer in 1m12s"
    )
  })
})
