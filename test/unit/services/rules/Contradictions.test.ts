import { assert, describe, it } from "@effect/vitest"
import { contradicts, type KnownOutcome } from "../../../../src/services/rules/contradictions.ts"
import { reference } from "../../../fixtures/ledger/Queue.ts"

const [theirs, other] = [reference("PAID-1"), reference("PAID-2")]
const unknown = { acknowledged: false, reference: null }
const named = { acknowledged: true, reference: theirs }

describe("A late proof", () => {
  it("contradicts only another outcome, and a receipt or a reference of which the ledger knows nothing", () => {
    const expected: ReadonlyArray<
      readonly [final: KnownOutcome, state: KnownOutcome["state"], reference: typeof theirs | null, is: boolean]
    > = [
      [{ state: "failed", ...unknown }, "succeeded", null, true],
      [{ state: "cancelled", ...unknown }, "succeeded", theirs, true],
      [{ state: "failed", ...named }, "succeeded", theirs, true],
      [{ state: "failed", ...unknown }, "submitted", null, true],
      [{ state: "failed", ...unknown }, "submitted", theirs, true],
      [{ state: "failed", ...unknown }, "indeterminate", theirs, true],
      [{ state: "failed", ...unknown }, "indeterminate", null, false],
      // What was received may fail later.
      [{ state: "failed", ...named }, "submitted", theirs, false],
      [{ state: "failed", ...named }, "submitted", null, false],
      [{ state: "failed", ...named }, "submitted", other, true],
      [{ state: "failed", ...unknown }, "failed", theirs, false],
      [{ state: "cancelled", ...unknown }, "failed", null, false],
      [{ state: "succeeded", ...unknown }, "succeeded", theirs, false],
      [{ state: "succeeded", ...unknown }, "submitted", theirs, false],
      [{ state: "succeeded", ...named }, "failed", theirs, true],
      // A second payment.
      [{ state: "succeeded", ...named }, "succeeded", other, true],
      [{ state: "succeeded", ...named }, "succeeded", theirs, false],
      [{ state: "succeeded", ...named }, "succeeded", null, false],
      [{ state: "indeterminate", ...unknown }, "succeeded", theirs, false],
      [{ state: "submitted", ...named }, "failed", null, false],
      // A second order before the end.
      [{ state: "submitted", ...named }, "submitted", other, true],
      [{ state: "indeterminate", ...named }, "failed", other, false]
    ]
    for (const [final, state, reference, is] of expected) {
      assert.strictEqual(contradicts(final, { state, reference }), is, JSON.stringify([final, state, reference]))
    }
  })
})
